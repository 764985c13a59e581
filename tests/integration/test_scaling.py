"""Replicas come, go, die and change their settings while requests are served."""

from __future__ import annotations

import asyncio
import copy
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import psutil
import pytest
from ray import serve
from ray.serve.schema import ServeDeploySchema

from benchmarks.harness import Service, statuses
from tests.conftest import speech
from tests.integration.test_independence import TEXTS, same

TEXT = " ".join(TEXTS[:12])
STAGES = {"ingress", "text-frontend", "hibari-acoustic", "hibari-vocoder"}


def pids(service: Service) -> dict[str, set[int]]:
    """Deployment → its replicas' processes."""
    return {stage: {process.pid for process in processes} for stage, processes in service.stage_processes().items()}


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.2)


def test_the_vocoder_alone_scales_up_and_back(service: Service) -> None:
    until(lambda: len(pids(service)["hibari-vocoder"]) == 1, 60, "one vocoder at rest")
    seen: dict[str, int] = dict.fromkeys(STAGES, 0)
    enough = threading.Event()

    async def client(http: httpx.AsyncClient) -> None:
        while not enough.is_set():
            answer = await http.post("/v1/audio/speech", json=speech(TEXT))
            assert answer.status_code == 200

    async def watch() -> None:
        try:
            def two_vocoders() -> bool:
                for stage, processes in pids(service).items():
                    seen[stage] = max(seen[stage], len(processes))
                return seen["hibari-vocoder"] == 2
            await asyncio.to_thread(until, two_vocoders, 60, "a second vocoder under load")
        finally:
            enough.set()

    async def load() -> None:
        async with httpx.AsyncClient(base_url=service.url, timeout=120) as http:
            await asyncio.gather(watch(), *(client(http) for _ in range(8)))

    asyncio.run(load())
    assert seen == dict.fromkeys(STAGES, 1) | {"hibari-vocoder": 2}
    until(lambda: len(pids(service)["hibari-vocoder"]) == 1, 60, "one vocoder again")


@pytest.mark.parametrize("stage", ["hibari-vocoder", "hibari-acoustic", "text-frontend"])
def test_a_killed_replica_costs_a_delay_and_nothing_else(service: Service, client: httpx.Client,
                                                              stage: str) -> None:
    whole = client.post("/v1/audio/speech", json=speech(TEXT)).content
    victims = pids(service)[stage]
    received = b""
    with client.stream("POST", "/v1/audio/speech", json=speech(TEXT)) as answer:
        for chunk in answer.iter_raw():
            if not received:
                for victim in victims:
                    psutil.Process(victim).send_signal(signal.SIGKILL)
            received += chunk
    assert same(received, whole)
    until(lambda: client.get("/health/ready").status_code == 200, 60, "every stage ready again")
    assert not pids(service)[stage] & victims


def test_batching_changes_live_and_a_bad_value_changes_nothing(service: Service,
                                                                    client: httpx.Client) -> None:
    before, whole = pids(service), client.post("/v1/audio/speech", json=speech(TEXT)).content

    def deploy(**user_config: Any) -> None:
        config = copy.deepcopy(service.config)
        vocoder = next(each for each in config["applications"][0]["deployments"] if each["name"] == "hibari-vocoder")
        vocoder["user_config"] |= user_config
        serve.context._get_global_client().deploy_apps(ServeDeploySchema.model_validate(config))

    def sizes() -> list[list[int]]:
        return [status.edges for status in statuses("hibari-vocoder")]

    try:
        deploy(window_sizes=[60, 240], padded_frames_cap=480)
        until(lambda: sizes() == [[60, 240]], 30, "new window sizes")
        assert same(client.post("/v1/audio/speech", json=speech(TEXT)).content, whole)
        assert pids(service) == before, "a replica was replaced"

        deploy(window_sizes=[240, 60])          # must ascend
        until(lambda: "window_sizes" in client.get("/health/ready").json()["stages"]["hibari-vocoder"], 30,
              "the refusal said")
        assert same(client.post("/v1/audio/speech", json=speech(TEXT)).content, whole)
        assert sizes() == [[60, 240]]
    finally:
        deploy()
        until(lambda: sizes() == [[40, 80, 160, 320]], 30, "the old window sizes")
    assert pids(service) == before, "a replica was replaced"
