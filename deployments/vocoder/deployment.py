"""The vocoder stage as a Serve deployment: features to PCM, window by window, batched across requests."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence

from deployments.contracts import AcousticFeatures, Need, VocoderNetwork, Window
from deployments.families import FAMILIES, load_class
from deployments.settings import VocoderSettings
from deployments.stage import Buckets, Stage
from deployments.vocoder.windows import pcm, plan

WINDOWS_IN_FLIGHT = 2
"""Windows of one utterance with the batcher at a time: the next waits there while one is computed, so that a
single listener keeps the compute thread busy."""


class VocoderStage(Stage[VocoderSettings, Window, bytes]):
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
        source = self._network.open(self._network.silence(edge))
        self._network.forward(edge, [Window(source, 0, edge, edge)])

    def forward(self, edge: int, items: Sequence[Window]) -> list[bytes]:
        """The windows' PCM."""
        return [pcm(samples) for samples in self._network.forward(edge, items)]

    async def speech(self, features: AcousticFeatures, need: Need, sample: int = 0) -> AsyncIterator[bytes]:
        """The utterance's PCM (s16le, mono), window after window, in order.

        ``need.due_s`` is when the listener reaches the utterance's first sample. ``sample`` is where to go on
        after an earlier replica was lost; it stands at the end of a window.
        """
        network, batcher = self._network, self.batcher
        source = await batcher.run(network.open, features)
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
                window = Window(source, start, frames, size)
                pending.append(asyncio.ensure_future(batcher.submit(window, frames, needed, edge=size)))
            while pending:
                yield await pending.popleft()
        finally:
            for task in pending:
                task.cancel()
