"""A request's audio does not depend on who else is served, nor on how it is cut."""

from __future__ import annotations

import asyncio

import httpx
import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Service
from serve_app.local import LocalSynthesizer
from tests.conftest import speech

LSB_OF_1E_4 = 4       # 1e-4 of full scale is 3.3 steps of 16-bit PCM
SUBJECTS = ("The ferry", "A grey heron", "My neighbour's dog", "Nobody", "The night watchman", "Every third child",
            "Her old bicycle", "One of the engineers")
PREDICATES = (
    "came in from the islands before breakfast.",
    "waited.",
    "could not say why the clock had stopped; it had always been seven minutes late. Then the rain began.",
    "counted twelve crates of oranges, three barrels of oil and one very tired goat, and wrote it all down.",
)
TEXTS = [f"{subject} {predicate}" for subject in SUBJECTS for predicate in PREDICATES]


def samples(pcm: bytes) -> NDArray[np.int32]:
    return np.frombuffer(pcm, "<i2").astype(np.int32)


def same(one: bytes, other: bytes) -> bool:
    """Equal within 1e-4 of full scale, sample for sample."""
    return len(one) == len(other) > 0 and int(np.abs(samples(one) - samples(other)).max()) <= LSB_OF_1E_4


async def _all_at_once(url: str, texts: list[str]) -> list[bytes]:
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=httpx.Limits(max_connections=None)) as client:
        answers = await asyncio.gather(*(client.post("/v1/audio/speech", json=speech(text)) for text in texts))
    assert {answer.status_code for answer in answers} == {200}
    return [answer.content for answer in answers]


def test_32_requests_at_once_each_equal_their_solo_answer(service: Service, client: httpx.Client) -> None:
    assert len(set(TEXTS)) == 32
    solo = [client.post("/v1/audio/speech", json=speech(text)).content for text in TEXTS]
    together = asyncio.run(_all_at_once(service.url, TEXTS))
    assert [text for text, one, other in zip(TEXTS, solo, together, strict=True) if not same(one, other)] == []
    assert len(set(together)) == 32, "two requests got the same audio"


def test_the_service_says_what_the_networks_alone_say(client: httpx.Client) -> None:
    text = " ".join(TEXTS[::5])
    alone = b"".join(LocalSynthesizer().pcm(text))
    assert same(client.post("/v1/audio/speech", json=speech(text)).content, alone)
