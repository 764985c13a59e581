"""Who is served first, and what a request that nobody wants any more costs."""

from __future__ import annotations

import asyncio
import statistics
import time

import httpx

from benchmarks.harness import Service, statuses
from tests.conftest import speech
from tests.integration.test_independence import TEXTS

LONG = " ".join(TEXTS)
SHORT = "Good morning, everyone."


async def _first_byte_s(client: httpx.AsyncClient, text: str) -> float:
    started = time.perf_counter()
    async with client.stream("POST", "/v1/audio/speech", json=speech(text)) as answer:
        assert answer.status_code == 200
        async for _ in answer.aiter_raw():
            return time.perf_counter() - started
    raise AssertionError("no audio came")


async def test_long_texts_delay_no_first_sound(service: Service) -> None:
    async with httpx.AsyncClient(base_url=service.url, timeout=120) as client:
        idle = statistics.median([await _first_byte_s(client, SHORT) for _ in range(5)])
        loads = [asyncio.create_task(client.post("/v1/audio/speech", json=speech(LONG))) for _ in range(4)]
        started = time.perf_counter()
        await _first_byte_s(client, SHORT)      # the four are under way now
        loaded = [await _first_byte_s(client, SHORT) for _ in range(5)]
        assert not any(load.done() for load in loads), "the load ended before the measurement did"
        answers = await asyncio.gather(*loads)
        took = time.perf_counter() - started
    assert all(answer.status_code == 200 for answer in answers)
    # First come, first served would make the short ones wait for a good part of the four long ones.
    assert statistics.median(loaded) < max(6 * idle, 0.1 * took)


def test_a_client_that_leaves_stops_the_stages_within_a_window(client: httpx.Client) -> None:
    def counts() -> list[int]:
        return [sum(status.items for status in statuses(stage)) for stage in ("hibari-acoustic", "hibari-vocoder")]

    before = counts()
    with client.stream("POST", "/v1/audio/speech", json=speech(LONG)) as answer:
        next(answer.iter_raw())
    at_leaving = counts()
    # Another request's whole passage is time enough for the left one's work to show, were there any.
    client.post("/v1/audio/speech", json=speech(SHORT))
    after = counts()
    assert at_leaving[1] > before[1]
    assert after[0] - at_leaving[0] <= 1 + 1        # the short one's utterance; what was under way
    assert after[1] - at_leaving[1] <= 3 + 2        # the short one's windows; the one under way, the one behind it


async def test_health_answers_while_every_stage_computes(service: Service) -> None:
    async with httpx.AsyncClient(base_url=service.url, timeout=120) as client:
        await client.get("/health/live")
        loads = [asyncio.create_task(client.post("/v1/audio/speech", json=speech(LONG))) for _ in range(3)]
        await _first_byte_s(client, SHORT)
        took = []
        for _ in range(20):
            for stage in ("text-frontend", "hibari-acoustic", "hibari-vocoder"):
                started = time.perf_counter()
                await asyncio.to_thread(statuses, stage)
                took.append(time.perf_counter() - started)
        busy = not any(load.done() for load in loads)
        await asyncio.gather(*loads)
    assert busy, "the load ended before the measurement did"
    assert statistics.median(took) < 0.1
