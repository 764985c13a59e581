"""The acoustic stage as a Serve deployment: utterances to features, batched by length."""

from __future__ import annotations

from collections.abc import Sequence

from deployments.contracts import AcousticFeatures, AcousticNetwork, Need, SpeechItem, Utterance
from deployments.families import FAMILIES, load_class
from deployments.settings import AcousticSettings
from deployments.stage import Buckets, Stage


class AcousticStage(Stage[AcousticSettings, SpeechItem, AcousticFeatures]):
    """One family's acoustic model."""

    settings_type = AcousticSettings

    def __init__(self, family: str) -> None:
        super().__init__(f"{family}-acoustic")
        self._family = FAMILIES[family]
        self._network: AcousticNetwork = load_class(self._family.acoustic)()

    def buckets(self, settings: AcousticSettings) -> Buckets:
        """Buckets by symbols; the last one reaches the model's own limit."""
        return Buckets(settings.edges(self._network.max_symbols), settings.padded_symbols_cap, settings.wait_s)

    def prepare(self, settings: AcousticSettings) -> None:
        """Take the thread count."""
        self._network.set_threads(settings.threads)

    def warm_up(self, edge: int) -> None:
        """Compute an utterance of the bucket's full length."""
        symbols = tuple(1 + index % 100 for index in range(edge))
        self._network.forward(edge, [SpeechItem(Utterance(0, 0, "und", symbols), self._family.voices[0].id)])

    def forward(self, edge: int, items: Sequence[SpeechItem]) -> list[AcousticFeatures]:
        """The batch's features."""
        return self._network.forward(edge, items)

    async def features(self, item: SpeechItem, need: Need) -> AcousticFeatures:
        """The utterance's features; the same whoever shares its batch."""
        return await self.batcher.submit(item, len(item.utterance.symbol_ids), need)
