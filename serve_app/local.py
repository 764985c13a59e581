"""The stages without Ray: text to PCM in this process, one item a batch, as the service gives it."""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from deployments.contracts import AcousticNetwork, SpeechItem, Utterance, VocoderNetwork, Window
from deployments.families import FAMILIES, load_class
from deployments.settings import AcousticSettings, FrontendSettings, VocoderSettings
from deployments.text_frontend.english import EnglishReader
from deployments.text_frontend.frontend import TextFrontend
from deployments.vocoder.windows import pcm, plan


class LocalSynthesizer:
    """One family's stages, called one after the other, on as many threads as torch has.

    Settings are the service's defaults, so that both give the same samples.
    """

    def __init__(self, family: str = "hibari") -> None:
        acoustic, vocoder = AcousticSettings(), VocoderSettings()
        self.family = FAMILIES[family]
        self._frontend = TextFrontend([EnglishReader()], FrontendSettings().longest_utterance)
        self._acoustic: AcousticNetwork = load_class(self.family.acoustic)()
        self._vocoder: VocoderNetwork = load_class(self.family.vocoder)()
        self._edges = acoustic.edges(self._acoustic.max_symbols)
        self._sizes = vocoder.window_sizes

    def pcm(self, text: str, voice: str | None = None, speed: float = 1.0, seed: int = 0) -> Iterator[bytes]:
        """The text's PCM (s16le, mono, at the family's rate), a window at a time."""
        for utterance in self.utterances(text):
            item = SpeechItem(utterance, voice or self.family.voices[0].id, speed, seed)
            yield from self.speak(item, first=utterance.start == 0)

    def utterances(self, text: str) -> Iterator[Utterance]:
        """The text's utterances, read as they are asked for."""
        start = 0
        while start < len(text):
            page = self._frontend.page(text, start, most=1)
            yield from page.utterances
            start = page.end

    def speak(self, item: SpeechItem, *, first: bool) -> Iterator[bytes]:
        """One utterance's PCM. ``first``: its first window is small, as for a request's first sound."""
        symbols = len(item.utterance.symbol_ids)
        edge = self._edges[bisect.bisect_left(self._edges, symbols)]
        features = self._acoustic.forward(edge, [item])[0]
        source = self._vocoder.open(features)
        for start, frames, size in plan(features.frames, self._sizes, self._vocoder.context_frames,
                                        first_small=first):
            samples = self._vocoder.forward(size, [Window(source, start, frames, size)])[0]
            yield pcm(samples)
