"""The vocoder stage as a Serve deployment: features to PCM, window by window, batched across requests."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from deployments.contracts import AcousticFeatures, Need, VocoderNetwork, Window
from deployments.families import FAMILIES, load_class
from deployments.settings import VocoderSettings
from deployments.stage import Buckets, Stage
from deployments.vocoder.windows import pcm, plan

WINDOWS_IN_FLIGHT = 2
"""Windows of one utterance with the batcher at a time: the next waits there while one is computed, so that a
single listener keeps the compute thread busy."""


class _Opened:
    """An utterance's source, opened by the first of its windows: that is compute, and comes in order of need."""

    def __init__(self, features: AcousticFeatures) -> None:
        self._features: AcousticFeatures | None = features
        self._source: object = None

    def by(self, network: VocoderNetwork) -> object:
        """The source. Called on the compute thread only."""
        if self._features is not None:
            self._source, self._features = network.open(self._features), None
        return self._source


@dataclass(frozen=True, slots=True)
class _WindowItem:
    """A window to be computed."""

    utterance: _Opened
    start: int
    frames: int


class VocoderStage(Stage[VocoderSettings, _WindowItem, bytes]):
    """One family's vocoder."""

    settings_type = VocoderSettings

    def __init__(self, family: str) -> None:
        super().__init__(f"{family}-vocoder")
        self._family = FAMILIES[family]
        self._network: VocoderNetwork = load_class(self._family.vocoder)()

    def buckets(self, settings: VocoderSettings) -> Buckets:
        """A bucket a window size."""
        return Buckets(settings.window_sizes, settings.padded_frames_cap, settings.wait_s)

    def prepare(self, settings: VocoderSettings) -> None:
        """Take the thread count."""
        self._network.set_threads(settings.threads)

    def warm_up(self, edge: int) -> None:
        """Compute a window of the bucket's size."""
        self.forward(edge, [_WindowItem(_Opened(self._network.silence(edge)), 0, edge)])

    def forward(self, edge: int, items: Sequence[_WindowItem]) -> list[bytes]:
        """The windows' PCM."""
        windows = [Window(item.utterance.by(self._network), item.start, item.frames, edge) for item in items]
        return [pcm(samples) for samples in self._network.forward(edge, windows)]

    async def speech(self, features: AcousticFeatures, need: Need, sample: int = 0) -> AsyncIterator[bytes]:
        """The utterance's PCM (s16le, mono), window after window, in order.

        ``need.due_s`` is when the listener reaches the utterance's first sample. ``sample`` is where to go on
        after an earlier replica was lost; it stands at the end of a window.
        """
        network, batcher, utterance = self._network, self.batcher, _Opened(features)
        frames_per_s = network.sample_rate / network.samples_per_frame
        first_frame = sample // network.samples_per_frame
        due_s = need.due_s if need.later else time.time()
        pending: deque[asyncio.Task[bytes]] = deque()
        try:
            for offset, frames, size in plan(features.frames - first_frame, batcher.edges,
                                             network.context_frames, first_small=not need.later):
                if len(pending) == WINDOWS_IN_FLIGHT:
                    yield await pending.popleft()
                start = first_frame + offset
                needed = need if start == 0 and not need.later else Need(True, due_s + start / frames_per_s)
                item = _WindowItem(utterance, start, frames)
                pending.append(asyncio.ensure_future(batcher.submit(item, frames, needed, edge=size)))
            while pending:
                yield await pending.popleft()
        finally:
            for task in pending:
                task.cancel()
