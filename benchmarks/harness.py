"""A running service to measure or to test: `serve run` on the repository's own config.yaml, and what it uses."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml

from deployments.stage import StageStatus

CONFIG = Path(__file__).resolve().parent.parent / "config.yaml"
START_S = 180.0


@dataclass(frozen=True, slots=True)
class Service:
    """A service under measurement."""

    url: str
    process: psutil.Process
    config: dict[str, Any]
    log: Path

    def processes(self) -> list[psutil.Process]:
        """Everything that the service runs in, Ray's own processes included."""
        return [self.process, *self.process.children(recursive=True)]

    def cpu_s(self) -> float:
        """CPU seconds that the living processes have used so far."""
        total = 0.0
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    def stage_processes(self) -> dict[str, list[psutil.Process]]:
        """Deployment name → its replicas' processes, by the titles that Ray gives them."""
        stages: dict[str, list[psutil.Process]] = {}
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                title = " ".join(process.cmdline())
                if title.startswith("ray::ServeReplica:cosyserve:"):
                    stages.setdefault(re.split(r"[:. ]", title)[4], []).append(process)
        return stages


def config_with(change: Callable[[dict[str, Any], dict[str, dict[str, Any]]], None] | None = None, *,
                port: int) -> dict[str, Any]:
    """config.yaml on a port of the loopback; ``change(application, deployments by name)`` edits it."""
    config: dict[str, Any] = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    config["http_options"] |= {"host": "127.0.0.1", "port": port}
    application = config["applications"][0]
    if change is not None:
        change(application, {deployment["name"]: deployment for deployment in application["deployments"]})
    return config


def free_port() -> int:
    """A TCP port of the loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def connected(service: Service) -> Iterator[None]:
    """This process as a driver of the service's cluster."""
    import ray

    raylet = next(process for process in service.processes() if process.name() == "raylet")
    address = next(word for word in raylet.cmdline() if word.startswith("--gcs-address=")).partition("=")[2]
    ray.init(address=address, namespace="serve", log_to_driver=False, logging_level="ERROR")
    try:
        yield
    finally:
        ray.shutdown()


def statuses(stage: str) -> list[StageStatus]:
    """Every replica's state, asked in a :func:`connected` process; none while the only one is being updated."""
    from ray import serve
    from ray.serve.exceptions import DeploymentUnavailableError

    handle = serve.get_deployment_handle(stage, "cosyserve")
    try:
        replies: list[StageStatus] = handle.broadcast("status").results(timeout_s=10)
    except DeploymentUnavailableError:
        return []
    return replies


@contextlib.contextmanager
def running_service(change: Callable[[dict[str, Any], dict[str, dict[str, Any]]], None] | None = None, *,
                    environment: dict[str, str] | None = None) -> Iterator[Service]:
    """The service, started by `serve run` in an empty folder that holds a config file only."""
    with tempfile.TemporaryDirectory(prefix="cosyserve-") as folder:
        port = free_port()
        config = config_with(change, port=port)
        (Path(folder) / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        log = Path(folder) / "serve.log"
        serve = Path(sys.executable).with_name("serve")
        with log.open("wb") as output:
            started = subprocess.Popen([str(serve), "run", "config.yaml"], cwd=folder, stdout=output,
                                       stderr=subprocess.STDOUT,
                                       env={**os.environ, "RAY_SERVE_LOG_TO_STDERR": "1", **(environment or {})})
        service = Service(f"http://127.0.0.1:{port}", psutil.Process(started.pid), config, log)
        try:
            _wait_until_ready(service, started)
            yield service
        finally:
            _stop(service, started)


def _wait_until_ready(service: Service, started: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if started.poll() is not None:
            break
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{service.url}/health/ready", timeout=5).status_code == 200:
                return
        time.sleep(0.2)
    tail = service.log.read_text(encoding="utf-8", errors="replace")[-4000:]
    raise RuntimeError(f"the service did not become ready; its log ends:\n{tail}")


def _stop(service: Service, started: subprocess.Popen[bytes]) -> None:
    family = service.processes() if started.poll() is None else []
    started.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        started.wait(30)
    _, alive = psutil.wait_procs(family, timeout=10)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
