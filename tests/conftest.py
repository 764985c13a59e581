"""One service for the whole run, started as an operator starts it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from benchmarks.harness import Service, connected, running_service


def _quick_to_scale(_: dict[str, Any], deployments: dict[str, dict[str, Any]]) -> None:
    """config.yaml with short delays, so that a test can wait for a replica to come and go."""
    for name, deployment in deployments.items():
        deployment["autoscaling_config"] |= {"look_back_period_s": 2, "upscale_delay_s": 1, "downscale_delay_s": 4}
        if name == "hibari-vocoder":
            deployment["autoscaling_config"] |= {"max_replicas": 2, "target_ongoing_requests": 4}


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    """The service, every stage ready; this process can ask its replicas."""
    pushes = {f"RAY_SERVE_{who}_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "1" for who in ("REPLICA", "HANDLE")}
    with running_service(_quick_to_scale, environment=pushes) as started, connected(started):
        yield started


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    """A client of the service's own address."""
    with httpx.Client(base_url=service.url, timeout=120) as opened:
        yield opened


def speech(text: str, **fields: Any) -> dict[str, Any]:
    """The body of a speech request; raw PCM unless told otherwise."""
    return {"model": "hibari", "voice": "heart", "response_format": "pcm", "input": text, **fields}
