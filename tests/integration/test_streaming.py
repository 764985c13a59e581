"""Sound while it is made, and the same sound every time."""

from __future__ import annotations

import asyncio
import time

import httpx
import numpy as np
import pytest

from benchmarks.harness import Service, statuses
from serve_app.audio import FORMATS
from tests.conftest import speech
from tests.integration.test_independence import PREDICATES, SUBJECTS, TEXTS, same, samples
from tests.unit.test_audio import decode

SENTENCE = TEXTS[3]
LONG = " ".join(TEXTS[:12])
ENCODED = [name for name in FORMATS if name != "pcm"]


def ask(client: httpx.Client, text: str, **fields: object) -> bytes:
    answer = client.post("/v1/audio/speech", json=speech(text, **fields))
    assert answer.status_code == 200, answer.text
    return answer.content


def windows_made() -> int:
    return sum(status.items for status in statuses("hibari-vocoder"))


@pytest.mark.parametrize("audio_format", FORMATS)
def test_the_first_sound_leaves_while_later_sentences_are_made(client: httpx.Client, audio_format: str) -> None:
    text = " ".join(TEXTS[:8])
    before, started = windows_made(), time.perf_counter()
    with client.stream("POST", "/v1/audio/speech", json=speech(text, response_format=audio_format)) as answer:
        chunks = answer.iter_raw()
        received = 0
        while received <= 44:               # a header alone is no sound
            received += len(next(chunks))
        first_s, at_first = time.perf_counter() - started, windows_made() - before
        for _ in chunks:
            pass
    total_s, total = time.perf_counter() - started, windows_made() - before
    assert first_s < total_s / 3
    assert total > 10
    assert at_first < total / 2


def test_streamed_and_in_one_piece_are_the_same(client: httpx.Client) -> None:
    with client.stream("POST", "/v1/audio/speech", json=speech(LONG)) as answer:
        chunks = list(answer.iter_raw())
    assert len(chunks) > 10
    whole = ask(client, LONG, stream=False)
    assert same(b"".join(chunks), whole)


@pytest.mark.parametrize("audio_format", FORMATS)
def test_the_same_request_gives_the_same_bytes(client: httpx.Client, audio_format: str) -> None:
    once, again = (ask(client, SENTENCE, response_format=audio_format, seed=11) for _ in range(2))
    assert once == again


def test_a_seed_changes_the_noise_and_nothing_else(client: httpx.Client) -> None:
    unset, zero, one = ask(client, SENTENCE), ask(client, SENTENCE, seed=0), ask(client, SENTENCE, seed=1)
    assert unset == zero
    assert one != zero
    assert len(one) == len(zero)
    assert np.corrcoef(samples(one), samples(zero))[0, 1] > 0.9
    assert len(ask(client, SENTENCE, seed=2**63 - 1)) == len(zero)


def test_what_follows_changes_nothing_before_it(client: httpx.Client) -> None:
    """So a listener hears the same whether a text is sent at once or grows."""
    first, second = TEXTS[3], TEXTS[7]
    alone, both = ask(client, first), ask(client, f"{first} {second}")
    assert same(both[:len(alone)], alone)
    # The second sentence has noise of its own, by its place in the text; its length is its own all the same.
    assert len(both) - len(alone) == len(ask(client, second))


# Past 2 the voice gains little: no symbol is shorter than a frame, in its own runtime neither.
@pytest.mark.parametrize(("speed", "duration"), [(0.25, 4.0), (0.5, 2.0), (1.5, 1 / 1.5), (2.0, 0.53)])
def test_speed_scales_the_duration(client: httpx.Client, speed: float, duration: float) -> None:
    normal = ask(client, SENTENCE)
    assert len(ask(client, SENTENCE, speed=speed)) / len(normal) == pytest.approx(duration, rel=0.08)
    assert ask(client, SENTENCE, speed=1) == normal         # an integer is a number too


def test_every_sentence_is_spoken(client: httpx.Client) -> None:
    """However the sentences stand next to each other, none is lost and none is spoken twice."""
    sentences = [f"{subject} {PREDICATES[3]}" for subject in SUBJECTS[:2]]
    apart = sum(len(ask(client, sentence)) for sentence in sentences)
    for joint in (" ", "\r\n\r\n", "\u2003"):
        assert len(ask(client, joint.join(sentences))) == pytest.approx(apart, rel=0.02)


async def test_formats_side_by_side_do_not_mix(service: Service) -> None:
    async with httpx.AsyncClient(base_url=service.url, timeout=120) as client:
        async def encoded(audio_format: str, text: str) -> bytes:
            body = speech(text, response_format=audio_format)
            return (await client.post("/v1/audio/speech", json=body)).content

        asked = [(name, text) for name in ENCODED for text in TEXTS[1:3]]
        alone = [await encoded(*each) for each in asked]
        together = await asyncio.gather(*(encoded(*each) for each in asked))
    for (name, text), one, other in zip(asked, alone, together, strict=True):
        heard, expected = decode(name, other), decode(name, one)
        assert heard.size == expected.size, (name, text)
        assert np.corrcoef(heard, expected)[0, 1] > 0.999, (name, text)


async def test_clients_that_leave_midway_do_no_harm(service: Service) -> None:
    """Streams of every codec are dropped while their encoders work; the front lives on and mixes nothing up."""
    fronts = {process.pid for process in service.stage_processes()["ingress"]}
    async with httpx.AsyncClient(base_url=service.url, timeout=120) as client:
        before = await client.post("/v1/audio/speech", json=speech(SENTENCE))

        async def leave(audio_format: str, after: int) -> None:
            body = speech(LONG, response_format=audio_format)
            async with client.stream("POST", "/v1/audio/speech", json=body) as answer:
                chunks = answer.aiter_raw()
                for _ in range(after):
                    await anext(chunks)

        await asyncio.gather(*(leave(name, after) for name in ENCODED for after in (1, 2, 3)))
        after = await client.post("/v1/audio/speech", json=speech(SENTENCE))
    assert same(after.content, before.content)
    assert {process.pid for process in service.stage_processes()["ingress"]} >= fronts
