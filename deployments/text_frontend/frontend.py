"""A request's text, page by page, as utterances that are ready to be spoken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from deployments.contracts import TextPage, Utterance
from deployments.errors import BadRequest
from deployments.text_frontend.reading import Reader, Reading
from deployments.text_frontend.splitting import clause_boundary, cut, ends_line, sentences

_SHORT = 20          # characters: shorter sentences sound clipped alone, and are spoken with the next one
_JOINED = 80         # characters: … up to this length together
_EARLY = 120         # characters: a longer first sentence is cut at a clause, for an early first sound
_SLACK = 1.25        # pieces are first cut by an estimate of their symbols, which may be this much too high
_READINGS_KEPT = 256
_REPORTED = 32       # characters outside the alphabet that a page names


class TextFrontend:
    """Turns any text into utterances of bounded length. Holds no state of any request.

    An utterance depends on the text from its start onwards, so that pages of any size give the same ones.

    Args:
        readers: one for each language; the first reads what names no language.
        longest_utterance: symbols an utterance may have, padding included; at least 64.
    """

    def __init__(self, readers: Sequence[Reader], longest_utterance: int = 240) -> None:
        if not readers:
            raise ValueError("a text frontend needs a reader")
        self._readers = tuple(readers)
        self.longest_utterance = longest_utterance
        # What a page reads to see where it ends is what the next page begins with.
        self._read: dict[str, Callable[[str], Reading]] = {
            reader.language: lru_cache(_READINGS_KEPT)(reader.read) for reader in readers}

    @property
    def longest_utterance(self) -> int:
        """Symbols an utterance may have, padding included; may be set between pages."""
        return self._longest

    @longest_utterance.setter
    def longest_utterance(self, symbols: int) -> None:
        if symbols < 64:
            raise ValueError(f"longest_utterance is {symbols}, which is under 64 symbols")
        self._longest = symbols

    def page(self, text: str, start: int, *, language: str | None = None, most: int) -> TextPage:
        """Up to ``most`` utterances of ``text`` from character ``start``, a page's end or 0.

        Text with nothing to say (blanks, emoji) belongs to the utterance before it, or at the start of the
        text to the one after it; only a text with nothing to say at all has no utterance.

        Raises:
            BadRequest: no reader speaks ``language``.
            ValueError: ``most`` or ``start`` is out of range.
        """
        if most < 1 or not 0 <= start <= len(text):
            raise ValueError(f"no page of {most} utterances from {start} in a text of {len(text)} characters")
        reader = self._reader(language)
        utterances: list[Utterance] = []
        unspoken: dict[str, None] = {}
        begin = position = start
        while position < len(text):
            end, reading = self._next(reader, text, position, early=start == 0 and not utterances)
            if reading.symbol_ids:
                if len(utterances) == most:
                    break
                utterances.append(Utterance(begin, end, reader.language, reading.symbol_ids))
                begin = end
            elif utterances:
                utterances[-1] = replace(utterances[-1], end=end)
                begin = end
            if len(unspoken) < _REPORTED:
                unspoken.update(dict.fromkeys(reading.unspoken))
            position = end
        return TextPage(tuple(utterances), position, "".join(unspoken)[:_REPORTED])

    def _reader(self, language: str | None) -> Reader:
        if language is None:
            return self._readers[0]
        wanted = language.lower().replace("_", "-")
        for reader in self._readers:
            if reader.language.lower() == wanted:
                return reader
        for reader in self._readers:
            if reader.language.lower().split("-")[0] == wanted.split("-")[0]:
                return reader
        spoken = ", ".join(reader.language for reader in self._readers)
        raise BadRequest(f"This voice does not speak {language!r}; it speaks {spoken}.", param="language")

    def _next(self, reader: Reader, text: str, start: int, *, early: bool) -> tuple[int, Reading]:
        """The end of the piece that begins at ``start``, and how it is spoken, in few enough symbols."""
        read = self._read[reader.language]
        end = self._sentence(reader, text, start)
        if early and end - start > _EARLY:
            end = clause_boundary(text, start, end) or end
        reading = read(text[start:end])
        while len(reading.symbol_ids) > self._longest and end - start > 1:
            end = cut(text, start, end)
            reading = read(text[start:end])
        return end, reading

    def _sentence(self, reader: Reader, text: str, start: int) -> int:
        """The end of the sentence at ``start``, or of several short ones of a paragraph."""
        longest = reader.reach(text, start, int(self._longest * _SLACK))
        spans = sentences(text, start, longest=longest)
        _, end = next(spans)
        for _, further in spans:
            if (len(text[start:end].strip()) >= _SHORT or further - start > min(_JOINED, longest)
                    or ends_line(text, start, end)):
                break
            end = further
        return end
