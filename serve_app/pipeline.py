"""One request's way through the stages: order, look-ahead, retry, cancel."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from ray.exceptions import ObjectLostError, RayActorError, RayError, WorkerCrashedError
from ray.serve.exceptions import BackPressureError
from ray.serve.handle import DeploymentHandle

from deployments.contracts import Need, SpeechItem, TextPage, Utterance
from deployments.errors import BadRequest, Overloaded, SpeechError
from deployments.families import Family

log = logging.getLogger("ray.serve")

PAGE = 8
"""Utterances that the frontend reads at a time, after the first."""
ATTEMPTS = 4
"""Tries of one utterance, when replicas die under it."""
SAMPLE_BYTES = 2


@dataclass(frozen=True, slots=True)
class Stages:
    """Handles of one family's stages."""

    acoustic: DeploymentHandle[Any]
    vocoder: DeploymentHandle[Any]


@dataclass(slots=True)
class Speech:
    """One request to speak, and what is known of it while it is spoken."""

    text: str
    family: Family
    voice: str
    speed: float
    seed: int
    language: str | None = None
    arrived_s: float = field(default_factory=time.time)
    first_sound_s: float | None = None
    """When the first PCM was ready; None until then."""
    samples: int = 0
    """PCM handed out so far."""
    symbols: int = 0
    """Symbols of the utterances handed to the stages so far."""
    unspoken: str = ""


class Pipeline:
    """The stages as one call. Holds no state between requests."""

    def __init__(self, frontend: DeploymentHandle[Any], stages: dict[str, Stages], look_ahead: int) -> None:
        self._frontend = frontend
        self._stages = stages
        self._look_ahead = look_ahead

    async def pcm(self, speech: Speech) -> AsyncIterator[bytes]:
        """The text's PCM (s16le, mono, at the family's rate), in order, as soon as it is made.

        At most ``look_ahead`` utterances are with the stages at once, so a slow listener holds no more than
        their audio. Closing the iterator cancels what is under way.
        """
        pieces: deque[_Piece] = deque()
        utterances = self._utterances(speech)
        try:
            while True:
                while len(pieces) < self._look_ahead and (utterance := await anext(utterances, None)):
                    pieces.append(self._piece(speech, utterance, pieces))
                    if speech.first_sound_s is None:
                        break           # the first sound before anything else, the frontend's next page too
                if not pieces:
                    return
                async for chunk in pieces[0].windows():
                    speech.first_sound_s = speech.first_sound_s or time.time()
                    speech.samples += len(chunk) // SAMPLE_BYTES
                    yield chunk
                    if len(pieces) < self._look_ahead and (utterance := await anext(utterances, None)):
                        pieces.append(self._piece(speech, utterance, pieces))
                pieces.popleft()
        finally:
            for piece in pieces:
                piece.cancel()
            await utterances.aclose()

    async def _utterances(self, speech: Speech) -> Any:
        start, most = 0, 1
        while start < len(speech.text):
            page: TextPage = await _again(lambda: self._frontend.page.remote(
                speech.text, start, most, speech.language))          # noqa: B023 - called at once
            speech.unspoken += page.unspoken
            if start == 0 and not page.utterances:
                raise BadRequest("the input holds nothing that can be spoken", param="input",
                                 code="nothing_to_speak")
            for utterance in page.utterances:
                yield utterance
            start, most = page.end, PAGE

    def _piece(self, speech: Speech, utterance: Utterance, ahead: deque[_Piece]) -> _Piece:
        stages = self._stages[speech.family.id]
        if not speech.symbols:
            need = Need(later=False, due_s=speech.arrived_s)
        else:
            # The listener reaches this utterance after what was sent and what is still under way before it.
            seconds = speech.samples / speech.family.sample_rate + sum(piece.expected_s for piece in ahead)
            need = Need(later=True, due_s=(speech.first_sound_s or time.time()) + seconds)
        speech.symbols += len(utterance.symbol_ids)
        expected_s = len(utterance.symbol_ids) * speech.family.seconds_per_symbol / speech.speed
        return _Piece(stages, SpeechItem(utterance, speech.voice, speech.speed, speech.seed), need, expected_s)


class _Piece:
    """One utterance under way in the stages."""

    def __init__(self, stages: Stages, item: SpeechItem, need: Need, expected_s: float) -> None:
        self.expected_s = expected_s
        self._stages = stages
        self._item = item
        self._need = need
        self._samples = 0
        self._start()

    def _start(self) -> None:
        # The features' response goes on unresolved: replica to replica, never through here.
        self._features = self._stages.acoustic.features.remote(self._item, self._need)
        self._sound = self._stages.vocoder.speech.options(stream=True).remote(
            self._features, self._need, self._samples)

    async def windows(self) -> AsyncIterator[bytes]:
        """The utterance's PCM; a replica that dies costs a retry from the last whole window."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async for chunk in self._sound:
                    self._samples += len(chunk) // SAMPLE_BYTES
                    yield chunk
                return
            except Exception as error:
                cause = _cause(error)
                if isinstance(cause, SpeechError) and not isinstance(cause, Overloaded):
                    raise cause from error
                first = self._samples == 0 and not self._need.later
                if attempt == ATTEMPTS or not _passing(cause) or (first and isinstance(cause, Overloaded)):
                    raise cause from error
                log.warning("utterance at %d is tried again: %r", self._item.utterance.start, cause)
            self.cancel()
            await asyncio.sleep(0.1 * 2 ** attempt)
            self._start()

    def cancel(self) -> None:
        """Stop the stages' work on this piece."""
        self._sound.cancel()
        self._features.cancel()


async def _again(call: Any) -> Any:
    """The call's result, tried again where a replica died under it."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await call()
        except Exception as error:
            cause = _cause(error)
            if attempt == ATTEMPTS or not _passing(cause) or isinstance(cause, Overloaded):
                raise cause from error
            log.warning("a call is tried again: %r", cause)
        await asyncio.sleep(0.1 * 2 ** attempt)
    raise AssertionError("unreachable")


def _cause(error: BaseException) -> Exception:
    """What went wrong in the stage itself, out of the wrappers that Ray puts around it."""
    while (inner := getattr(error, "cause", None) or error.__cause__) and isinstance(inner, Exception):
        error = inner
    if isinstance(error, BackPressureError):
        return Overloaded("every replica's queue is full")
    assert isinstance(error, Exception)
    return error


def _passing(error: Exception) -> bool:
    """Whether the same call can succeed on another replica, or a little later."""
    return isinstance(error, (Overloaded, RayActorError, WorkerCrashedError, ObjectLostError)) or (
        isinstance(error, RayError) and "OutOfMemory" in type(error).__name__)
