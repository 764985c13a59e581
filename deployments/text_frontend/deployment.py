"""The text frontend as a Serve deployment."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from ray import serve

from deployments.batching import BatchReport
from deployments.contracts import TextPage
from deployments.settings import FrontendSettings
from deployments.stage import Stage, log
from deployments.text_frontend.frontend import TextFrontend

_WARM_UP = "The quick brown fox jumps over the lazy dog, for $9.99, at 7:30 pm. Zyxglorp?"


@serve.deployment(name="text-frontend")
class TextFrontendStage(Stage[FrontendSettings]):
    """Turns text into utterances, a page at a time. Its process imports no torch."""

    settings_type = FrontendSettings

    def __init__(self) -> None:
        super().__init__("text-frontend")
        self._frontend = TextFrontend()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="frontend-compute")
        self._waiting = 0
        self._since: float | None = None

    def apply(self, settings: FrontendSettings) -> None:
        """Take the settings; read one sentence, so that lexicon and networks are loaded before work comes."""
        self._frontend.longest_utterance = settings.longest_utterance
        self._frontend.page(_WARM_UP, 0, most=8)

    def queued(self) -> int:
        """Pages that wait for compute."""
        return max(0, self._waiting - 1)

    def computing_for_s(self) -> float:
        """How long the page under way has been read."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    async def page(self, text: str, start: int, most: int, language: str | None = None) -> TextPage:
        """Up to ``most`` utterances of ``text`` from character ``start``."""
        arrived = time.monotonic()
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, self._read, text, start, most, language, arrived)
        finally:
            self._waiting -= 1

    def _read(self, text: str, start: int, most: int, language: str | None, arrived: float) -> TextPage:
        started = self._since = time.monotonic()
        try:
            page = self._frontend.page(text, start, most=most, language=language)
        finally:
            self._since = None
        if page.unspoken:
            log.warning("text-frontend: spoken around, not in the voice's alphabet: %s", ascii(page.unspoken))
        self.report(BatchReport(edge=1, items=1, padded_share=0.0, wait_s=started - arrived,
                                compute_s=time.monotonic() - started, queued=self.queued()))
        return page
