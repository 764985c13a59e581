"""One request's way through the stages: order, look-ahead, retry, cancel."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from typing import Any

from ray.exceptions import ObjectLostError, RayActorError, RayError, WorkerCrashedError
from ray.serve.exceptions import BackPressureError
from ray.serve.handle import DeploymentHandle

from deployments.contracts import Need, PageRequest, SpeechItem, TextPage
from deployments.errors import BadRequest, Overloaded
from deployments.families import Family

log = logging.getLogger("ray.serve")

PAGE = 8
"""Utterances that the frontend reads at a time, after the first."""
PAUSES_S = (0.2, 0.4, 0.8, 1.6, 3.2, 5.0)
"""Waits before a call is tried again, when replicas die under it: longer in all than Serve takes to notice, and few
enough that a piece that kills its replicas does not kill them all day."""
SAMPLE_BYTES = 2


class Stages:
    """One family's stages as calls. Each call's handle is made once: making one costs as much as a call."""

    def __init__(self, acoustic: DeploymentHandle[Any], vocoder: DeploymentHandle[Any]) -> None:
        self.features = acoustic.options(method_name="features")
        self.speech = vocoder.options(method_name="speech", stream=True)


@dataclass(slots=True)
class Speech:
    """One request to speak, and what is known of it while it is spoken."""

    text: str
    family: Family
    voice: str
    speed: float
    seed: int
    arrived_s: float = field(default_factory=time.time)
    first_sound_s: float | None = None
    """When the first PCM was ready; None until then."""
    samples: int = 0
    """PCM handed out so far."""

    def runs_dry_s(self, under_way: Iterable[_Piece]) -> float:
        """Unix time at which the listener has heard what was sent and what is under way."""
        seconds = self.samples / self.family.sample_rate + sum(piece.expected_s for piece in under_way)
        return (self.first_sound_s or time.time()) + seconds


class Pipeline:
    """The stages as one call. Holds no state between requests."""

    def __init__(self, frontend: DeploymentHandle[Any], stages: dict[str, Stages], look_ahead: int) -> None:
        # A page is small: by value, without a turn through the object store.
        self._page = frontend.options(method_name="page", _by_reference=False)
        self._stages = stages
        self._look_ahead = look_ahead

    async def pcm(self, speech: Speech) -> AsyncGenerator[bytes, None]:
        """The text's PCM (s16le, mono, at the family's rate), in order, as soon as it is made.

        At most ``look_ahead`` utterances are with the stages at once, so a slow listener holds no more than
        their audio. Closing the iterator cancels what is under way.
        """
        pieces: asyncio.Queue[_Piece | None] = asyncio.Queue()
        places = asyncio.Semaphore(self._look_ahead)
        under_way: set[_Piece] = set()
        sounding = asyncio.Event()
        feeder = asyncio.ensure_future(self._feed(speech, pieces, places, under_way, sounding))
        try:
            while (piece := await pieces.get()) is not None:
                async for chunk in piece.windows():
                    speech.first_sound_s = speech.first_sound_s or time.time()
                    speech.samples += len(chunk) // SAMPLE_BYTES
                    piece.expected_s -= len(chunk) / SAMPLE_BYTES / speech.family.sample_rate
                    sounding.set()
                    yield chunk
                sounding.set()
                under_way.discard(piece)
                places.release()
            await feeder
        finally:
            feeder.cancel()
            for piece in under_way:
                piece.cancel()

    async def _feed(self, speech: Speech, pieces: asyncio.Queue[_Piece | None], places: asyncio.Semaphore,
                    under_way: set[_Piece], sounding: asyncio.Event) -> None:
        """Start the text's utterances one after the other, as places come free.

        The second one waits until the first sounds: its work would only take cores from that.
        """
        stages = self._stages[speech.family.id]
        start, need = 0, Need(later=False, due_s=speech.arrived_s)
        try:
            while start < len(speech.text):
                request = PageRequest(speech.text, start, PAGE if start else 1)
                page: TextPage = await _again(self._page, request, need)
                if start == 0 and not page.utterances:
                    raise BadRequest("the input holds nothing that can be spoken", param="input",
                                     code="nothing_to_speak")
                for utterance in page.utterances:
                    await places.acquire()
                    if start:
                        need = Need(later=True, due_s=speech.runs_dry_s(under_way))
                    expected_s = len(utterance.symbol_ids) * speech.family.seconds_per_symbol / speech.speed
                    item = SpeechItem(utterance, speech.voice, speech.speed, speech.seed)
                    piece = _Piece(stages, item, need, expected_s)
                    under_way.add(piece)
                    pieces.put_nowait(piece)
                await sounding.wait()
                start = page.end
                need = Need(later=True, due_s=speech.runs_dry_s(under_way))
        finally:
            pieces.put_nowait(None)


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
        self._features = self._stages.features.remote(self._item, self._need)
        self._sound = self._stages.speech.remote(self._features, self._need, self._samples)

    async def windows(self) -> AsyncGenerator[bytes, None]:
        """The utterance's PCM; a replica that dies costs a retry from the last whole window."""
        for pause_s in (*PAUSES_S, None):
            try:
                async for chunk in self._sound:
                    self._samples += len(chunk) // SAMPLE_BYTES
                    yield chunk
                return
            except Exception as error:
                cause = _cause(error)
                first = self._samples == 0 and not self._need.later
                if pause_s is None or not _passing(cause) or (first and isinstance(cause, Overloaded)):
                    raise cause from error
                log.warning("utterance at %d is tried again: %r", self._item.utterance.start, cause)
            self.cancel()
            await asyncio.sleep(pause_s)
            self._start()

    def cancel(self) -> None:
        """Stop the stages' work on this piece."""
        self._sound.cancel()
        self._features.cancel()


async def _again(method: DeploymentHandle[Any], *args: object) -> Any:
    """The result of a stage's method, tried again where a replica died under it."""
    for pause_s in (*PAUSES_S, None):
        try:
            return await method.remote(*args)
        except Exception as error:
            cause = _cause(error)
            if pause_s is None or not _passing(cause) or isinstance(cause, Overloaded):
                raise cause from error
            log.warning("a call is tried again: %r", cause)
        await asyncio.sleep(pause_s)
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
