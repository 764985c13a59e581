"""What the frontend asks of a language: to read a piece of text aloud, on paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Reading:
    """How a piece of text is spoken."""

    symbol_ids: tuple[int, ...] = ()
    """Ids in the family's alphabet with its padding at both ends; empty when there is nothing to say."""
    unspoken: str = ""
    """Characters outside the voice's alphabet that were spoken around, each once."""


class Reader(Protocol):
    """Reads one language. Called from one thread only."""

    language: str
    """BCP 47 tag, such as ``en-US``."""

    def read(self, piece: str) -> Reading:
        """Whatever the characters are, this returns a reading. A single character must come to no more
        symbols than the shortest limit in use: a piece that is too long is cut and read again."""
        ...

    def reach(self, text: str, start: int, symbols: int) -> int:
        """Roughly how many characters from ``start`` make ``symbols`` symbols; at least 2. An estimate
        from the characters alone, so that a long piece is cut before the costly work of reading it."""
        ...
