"""The text frontend as a Serve deployment."""

from __future__ import annotations

from collections.abc import Sequence

from deployments.contracts import Need, PageRequest, TextPage
from deployments.settings import FrontendSettings
from deployments.stage import Buckets, Stage, log
from deployments.text_frontend.english import EnglishReader
from deployments.text_frontend.frontend import TextFrontend

_WARM_UP = "The quick brown fox jumps over the lazy dog, for $9.99, at 7:30 pm."


class TextFrontendStage(Stage[FrontendSettings, PageRequest, TextPage]):
    """Turns text into utterances, a page at a time. Its process imports no torch."""

    settings_type = FrontendSettings

    def __init__(self) -> None:
        super().__init__("text-frontend")
        self._english = EnglishReader()
        self._frontend = TextFrontend([self._english])

    def buckets(self, settings: FrontendSettings) -> Buckets:
        """One page at a time, in the order of need."""
        return Buckets(edges=[1], cap=1)

    def prepare(self, settings: FrontendSettings) -> None:
        """Take the settings."""
        self._frontend.longest_utterance = settings.longest_utterance

    def warm_up(self, edge: int) -> None:
        """Load the net for unknown words, and read a sentence, before work comes."""
        self._english.warm_up()
        self._frontend.page(_WARM_UP, 0, most=8)

    def forward(self, edge: int, items: Sequence[PageRequest]) -> list[TextPage]:
        """Read the pages."""
        pages = [self._frontend.page(item.text, item.start, most=item.most) for item in items]
        for page in pages:
            if page.unspoken:
                log.warning("spoken around, not in the voice's alphabet: %s", ascii(page.unspoken))
        return pages

    async def page(self, request: PageRequest, need: Need) -> TextPage:
        """The utterances of a page."""
        return await self.batcher.submit(request, 1, need)
