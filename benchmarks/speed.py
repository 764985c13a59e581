"""What speech costs, three ways side by side in one run: hibari's own runtime, our networks without Ray, and
the service with one client and with eight. `make bench` prints the table.

The first two ways take turns, text by text, and again around the service's runs, since a machine's speed
drifts. The service's CPU time is that of all its processes, Ray's included, less what they use idle.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.harness import Service, connected, running_service, statuses
from benchmarks.ways import SAMPLE_RATE

TEXTS: list[str] = json.loads((Path(__file__).parent / "long_texts.json").read_text(encoding="utf-8"))["en"]
IDLE_S = 10.0


@dataclass(slots=True)
class Row:
    """What one way came to."""

    audio_s: float = 0.0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    first_bytes_s: list[float] = field(default_factory=list)
    resident: int = 0

    @property
    def audio_per_cpu(self) -> float:
        """Seconds of audio for each CPU second."""
        return self.audio_s / self.cpu_s


class Way:
    """One of the ways without Ray, in its own process."""

    def __init__(self, name: str) -> None:
        self.row = Row()
        self._process = subprocess.Popen([sys.executable, "-m", "benchmarks.ways", name], text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._answer()

    def speak(self, text: str) -> None:
        """Speak a text and add up what it cost."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(text) + "\n")
        self._process.stdin.flush()
        cost = self._answer()
        self.row.audio_s += cost["audio_s"]
        self.row.cpu_s += cost["cpu_s"]
        self.row.wall_s += cost["wall_s"]
        self.row.first_bytes_s.append(cost["first_s"])
        self.row.resident = max(self.row.resident, cost["resident"])

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(30)

    def _answer(self) -> Any:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())


async def speak_over_http(client: httpx.AsyncClient, text: str, row: Row) -> None:
    """One request, streamed as PCM."""
    started = time.perf_counter()
    body = {"model": "hibari", "voice": "heart", "input": text, "response_format": "pcm"}
    size, first_s = 0, 0.0
    async with client.stream("POST", "/v1/audio/speech", json=body) as answer:
        answer.raise_for_status()
        async for chunk in answer.aiter_raw():
            first_s = first_s or time.perf_counter() - started
            size += len(chunk)
    row.first_bytes_s.append(first_s)
    row.audio_s += size / 2 / SAMPLE_RATE


async def load(service: Service, clients: int, idle_rate: float) -> Row:
    """Every text once a client; each client begins at another one."""
    row = Row()

    async def client(number: int) -> None:
        async with httpx.AsyncClient(base_url=service.url, timeout=600) as http:
            await http.get("/health/live")
            for step in range(len(TEXTS)):
                await speak_over_http(http, TEXTS[(step + number) % len(TEXTS)], row)

    cpu, wall = service.cpu_s(), time.perf_counter()
    await asyncio.gather(*map(client, range(clients)))
    row.wall_s = time.perf_counter() - wall
    row.cpu_s = service.cpu_s() - cpu - idle_rate * row.wall_s
    return row


def peaks(service: Service) -> dict[str, int]:
    """Largest resident size of each stage's replica, in bytes, from the kernel."""
    found = {}
    for stage, processes in sorted(service.stage_processes().items()):
        status = [Path(f"/proc/{process.pid}/status").read_text(encoding="ascii") for process in processes]
        found[stage] = max(int(text.split("VmHWM:")[1].split()[0]) * 1024 for text in status)
    return found


def padded_shares() -> dict[str, float]:
    """Share of each batching stage's padded cost that held nothing, so far."""
    return {stage: statuses(stage)[0].padded_share for stage in ("hibari-acoustic", "hibari-vocoder")}


def late_s(row: Row) -> float:
    """95th percentile of the time to the first byte."""
    return statistics.quantiles(row.first_bytes_s, n=20)[-1]


def _fixed(_: dict[str, Any], deployments: dict[str, dict[str, Any]]) -> None:
    """One replica each: this measures a replica, not the scaling."""
    for deployment in deployments.values():
        deployment["autoscaling_config"] |= {"min_replicas": 1, "max_replicas": 1}


def main() -> None:
    """Run everything and print the tables."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=2, help="passes over the texts of the ways without Ray")
    rounds = arguments.parse_args().rounds
    hibari, ours = Way("hibari"), Way("ours")

    def side_by_side() -> None:
        for text in TEXTS:
            hibari.speak(text)
            ours.speak(text)

    with running_service(_fixed) as service, connected(service):
        asyncio.run(load(service, 1, 0.0))                          # warm
        cpu, wall = service.cpu_s(), time.perf_counter()
        time.sleep(IDLE_S)                                          # the idle rate is a matter of time
        idle_rate = (service.cpu_s() - cpu) / (time.perf_counter() - wall)
        rows = {}
        for clients in (1, 8):
            for _ in range(rounds):
                side_by_side()
            rows[f"service, {clients} client{'s' * (clients > 1)}"] = asyncio.run(load(service, clients, idle_rate))
        resident, shares = peaks(service), padded_shares()
    hibari.close()
    ours.close()
    rows = {"hibari's own runtime": hibari.row, "our networks, no Ray": ours.row, **rows}
    _print(rows, resident, shares, idle_rate)


def _print(rows: dict[str, Row], resident: dict[str, int], shares: dict[str, float], idle_rate: float) -> None:
    print("| | audio s per CPU s | audio s per wall s | first byte, median | 95th | resident |")
    print("|---|---|---|---|---|---|")
    for name, row in rows.items():
        median, late = statistics.median(row.first_bytes_s) * 1e3, late_s(row) * 1e3
        size = f"{row.resident / 2**20:.0f} MiB" if row.resident else ""
        print(f"| {name} | {row.audio_per_cpu:.1f} | {row.audio_s / row.wall_s:.1f} "
              f"| {median:.0f} ms | {late:.0f} ms | {size} |")
    hibari, ours, one, eight = rows.values()
    added = statistics.median(one.first_bytes_s) - statistics.median(ours.first_bytes_s)
    print(f"\nour networks / hibari's own runtime: {ours.audio_per_cpu / hibari.audio_per_cpu:.2f} (target 0.5)")
    print(f"service with 8 clients / our networks: {eight.audio_per_cpu / ours.audio_per_cpu:.2f} (target 0.75)")
    print(f"first byte with 1 client: {added * 1e3:.0f} ms more than our networks take for it (target 40 ms)")
    print(f"95th percentile of the first byte, 8 clients / 1 client: {late_s(eight) / late_s(one):.2f} (target 3)")
    print(f"all processes idle: {idle_rate:.2f} cores\n")
    print("| stage | peak resident | padded share |\n|---|---|---|")
    for stage, size in resident.items():
        share = f"{shares[stage]:.1%}" if stage in shares else ""
        print(f"| {stage} | {size / 2**20:.0f} MiB | {share} |")


if __name__ == "__main__":
    main()
