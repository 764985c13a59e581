"""The operator's limits, in a service that has small ones: what is over them is told so, and the rest goes on."""

from __future__ import annotations

import asyncio
import base64
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import openai
import psutil
import pytest

from benchmarks.harness import Service, running_service
from tests.conftest import speech
from tests.integration.test_catalogue import error_of
from tests.integration.test_independence import TEXTS, same
from tests.integration.test_scaling import until
from tests.integration.test_speech_api import events

REQUEST_S = 3.0
AT_ONCE = 3
LIMITS = {"characters": 15_000, "whole_answer_characters": 60, "body_bytes": 20_000,
          "concurrent_requests": AT_ONCE, "request_s": REQUEST_S}
SHORT = "Good morning, everyone."
LONG = " ".join(TEXTS * 6)[:15_000]      # far more than REQUEST_S makes of it


def _small(application: dict[str, Any], deployments: dict[str, dict[str, Any]]) -> None:
    """config.yaml with LIMITS, and one replica a stage: a second front would take requests of its own."""
    application["args"]["limits"] = LIMITS
    for deployment in deployments.values():
        deployment["autoscaling_config"] |= {"max_replicas": 1}


@pytest.fixture(scope="module")
def small() -> Iterator[Service]:
    with running_service(_small) as started:
        yield started


@pytest.fixture
def client(small: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=small.url, timeout=60) as opened:
        yield opened


@pytest.fixture
def reference(client: httpx.Client) -> bytes:
    def answer() -> httpx.Response:
        return client.post("/v1/audio/speech", json=speech(SHORT))

    until(lambda: answer().status_code == 200, 10, "a place")       # an earlier test's requests have ended
    return answer().content


def test_lengths(client: httpx.Client) -> None:
    for body, param, code in ((speech("a" * 15_001), "input", "input_too_long"),
                              (speech("a " * 31, stream=False), "input", "input_too_long"),
                              (speech(SHORT, padding="a" * 20_000), None, "too_large")):
        answer = client.post("/v1/audio/speech", json=body)
        assert answer.status_code == 413
        error = error_of(answer)
        assert (error["param"], error["code"]) == (param, code)
    assert "15000" in client.post("/v1/audio/speech", json=speech("a" * 15_001)).json()["error"]["message"]


async def _hold(client: httpx.AsyncClient, ends: asyncio.Event, begun: Callable[[], None]) -> httpx.Response:
    """A long request that is under way until ``ends``, or its refusal."""
    async with client.stream("POST", "/v1/audio/speech", json=speech(LONG)) as answer:
        if answer.status_code == 200:
            chunks = answer.aiter_raw()
            await anext(chunks)
        else:
            await answer.aread()
        begun()
        await ends.wait()
    return answer


@asynccontextmanager
async def holding(client: httpx.AsyncClient, count: int) -> AsyncIterator[list[asyncio.Task[httpx.Response]]]:
    """``count`` long requests at once, each under way or refused."""
    begun, ends = asyncio.Semaphore(0), asyncio.Event()
    tasks = [asyncio.create_task(_hold(client, ends, begun.release)) for _ in range(count)]
    for _ in tasks:
        await begun.acquire()
    try:
        yield tasks
    finally:
        ends.set()
        await asyncio.gather(*tasks)


@pytest.mark.usefixtures("reference")
async def test_those_too_many_are_sent_away_for_a_moment(small: Service) -> None:
    async with httpx.AsyncClient(base_url=small.url, timeout=60) as client:
        async with holding(client, 4 * AT_ONCE) as tasks:
            pass
        answers = [task.result() for task in tasks]
        refused = [answer for answer in answers if answer.status_code == 503]
        assert len(refused) == 3 * AT_ONCE
        assert len([answer for answer in answers if answer.status_code == 200]) == AT_ONCE
        for answer in refused:
            assert int(answer.headers["retry-after"]) >= 1
            error = error_of(answer)
            assert (error["type"], error["param"], error["code"]) == ("server_error", None, "overloaded")


async def test_who_leaves_makes_room_at_once(small: Service, reference: bytes) -> None:
    async with httpx.AsyncClient(base_url=small.url, timeout=60) as client:
        async with holding(client, AT_ONCE):
            assert (await client.post("/v1/audio/speech", json=speech(SHORT))).status_code == 503
        left = time.monotonic()
        while (answer := await client.post("/v1/audio/speech", json=speech(SHORT))).status_code == 503:
            assert time.monotonic() - left < REQUEST_S / 2, "places are held for clients that left"
        assert answer.content == reference


@pytest.mark.usefixtures("reference")
async def test_the_official_client_waits_and_comes_again(small: Service) -> None:
    async with httpx.AsyncClient(base_url=small.url, timeout=60) as client, holding(client, AT_ONCE):
        async with openai.AsyncOpenAI(base_url=f"{small.url}/v1", api_key="unused", max_retries=0) as hasty:
            with pytest.raises(openai.InternalServerError) as raised:
                await hasty.audio.speech.create(model="tts-1", voice="alloy", input=SHORT)
            assert (raised.value.status_code, raised.value.code) == (503, "overloaded")
        async with openai.AsyncOpenAI(base_url=f"{small.url}/v1", api_key="unused", max_retries=5) as patient:
            answer = await patient.audio.speech.create(model="tts-1", voice="alloy", input=SHORT)
            assert len(answer.content) > 5000


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("audio_format", ["pcm", "mp3"])
def test_a_stream_past_its_time_is_broken_off(client: httpx.Client, audio_format: str) -> None:
    """Broken off, not ended: nobody takes a part for the whole."""
    started, received = time.monotonic(), 0

    def read(answer: httpx.Response) -> None:
        nonlocal received
        for chunk in answer.iter_raw():
            received += len(chunk)

    body = speech(LONG, response_format=audio_format)
    with (client.stream("POST", "/v1/audio/speech", json=body) as answer,
          pytest.raises(httpx.RemoteProtocolError)):
        read(answer)
    assert answer.status_code == 200
    assert received > 10_000
    assert REQUEST_S / 2 < time.monotonic() - started < 3 * REQUEST_S


@pytest.mark.usefixtures("reference")
def test_events_past_their_time_end_with_an_error(client: httpx.Client) -> None:
    with client.stream("POST", "/v1/audio/speech", json=speech(LONG, stream_format="sse")) as answer:
        *deltas, last = events(answer.iter_lines())
    assert sum(len(base64.b64decode(delta["audio"])) for delta in deltas) > 10_000
    assert set(last["error"]) == {"message", "type", "param", "code"}
    assert (last["error"]["type"], last["error"]["code"]) == ("server_error", "timeout")


@contextmanager
def stopped(processes: list[psutil.Process]) -> Iterator[None]:
    """A stage that hangs: its processes live, and do nothing."""
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("stage", ["text-frontend", "hibari-acoustic", "hibari-vocoder"])
def test_a_stage_that_hangs_costs_its_request_only(small: Service, client: httpx.Client, reference: bytes,
                                                   stage: str) -> None:
    with stopped(small.stage_processes()[stage]):
        started = time.monotonic()
        answer = client.post("/v1/audio/speech", json=speech(f"{SHORT} Something new."))
        assert answer.status_code == 504
        assert time.monotonic() - started < 3 * REQUEST_S
        error = error_of(answer)
        assert (error["type"], error["code"]) == ("server_error", "timeout")
        ready = client.get("/health/ready")         # and those who balance load are told
        assert ready.status_code == 503
        assert {name for name, word in ready.json()["stages"].items() if word != "ok"} == {stage}
        assert client.get("/health/live").status_code == 200
    until(lambda: client.get("/health/ready").status_code == 200, 30, "ready again")
    assert same(client.post("/v1/audio/speech", json=speech(SHORT)).content, reference)
