"""The acoustic stage as a Serve deployment: utterances to features, batched by length."""

from __future__ import annotations

from ray import serve

from deployments.batching import BucketedBatcher
from deployments.contracts import AcousticFeatures, AcousticNetwork, Need, SpeechItem, Utterance
from deployments.families import FAMILIES, load_class
from deployments.settings import AcousticSettings
from deployments.stage import Stage


@serve.deployment
class AcousticStage(Stage[AcousticSettings]):
    """One family's acoustic model."""

    settings_type = AcousticSettings

    def __init__(self, family: str) -> None:
        super().__init__(f"{family}-acoustic")
        self._family = FAMILIES[family]
        self._network: AcousticNetwork = load_class(self._family.acoustic)()
        self._batcher: BucketedBatcher[SpeechItem, AcousticFeatures] | None = None

    def apply(self, settings: AcousticSettings) -> None:
        """Take the settings; compute one item of every bucket that they bring."""
        self._network.set_threads(settings.threads)
        longest = self._network.max_symbols
        edges = [edge for edge in settings.bucket_edges if edge < longest] + [longest]
        for edge in edges if self._batcher is None else sorted(set(edges) - set(self._batcher.edges)):
            self._network.forward(edge, [self._warm_up_item(edge)])
        if self._batcher is None:
            self._batcher = BucketedBatcher(self.name, self._network.forward, edges=edges,
                                            cap=settings.padded_symbols_cap, wait_s=settings.wait_s,
                                            report=self.report)
        else:
            self._batcher.configure(edges=edges, cap=settings.padded_symbols_cap, wait_s=settings.wait_s)

    def _warm_up_item(self, symbols: int) -> SpeechItem:
        ids = (0, *[50] * (symbols - 2), 0)
        return SpeechItem(Utterance(0, 0, "und", ids), self._family.voices[0].id)

    def queued(self) -> int:
        """Utterances that wait for compute."""
        return self._batcher.queued if self._batcher else 0

    def computing_for_s(self) -> float:
        """How long the batch under way has been computing."""
        return self._batcher.computing_for_s if self._batcher else 0.0

    async def features(self, item: SpeechItem, need: Need) -> AcousticFeatures:
        """The utterance's features; the same whoever shares its batch."""
        assert self._batcher is not None      # Serve configures a replica before it gives it work
        return await self._batcher.submit(item, len(item.utterance.symbol_ids), need)
