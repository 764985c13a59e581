"""English, as the hibari voice reads it: hibari's own grapheme-to-phoneme rules, with the text prepared.

Loading takes about 0.7 s and 100 MB of lexicon; the net for unknown words, and the runtime under it, load
when the first unknown word comes, or at :meth:`EnglishReader.warm_up`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from importlib.resources import files

from hibari.g2p import G2P, SUBTOKEN_RE
from hibari.g2p.normalize import normalize

from deployments.text_frontend.normalising import AFTER, BEFORE, fold, rewrite
from deployments.text_frontend.reading import Reading

_PAD = 0
_SILENT = frozenset(" ;:,.!?—…\"()“”ˈˌː")        # symbols that make no sound of their own
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_RUN = re.compile(r"\S{13,}")
_MOST_PARTS = 12
_BLANK_BEFORE_MARK = re.compile(r" +(?=[.,;:!?])")
_SPOKEN = re.compile(r"[^\s.,;:!?…—–\-\"'“”‘’()\[\]{}*_`|\\]")
_HEAVY = frozenset("0123456789%&@+=<>/#$£€^°")   # spoken as words: several symbols each
_HEAVY_SYMBOLS = 6


class EnglishReader:
    """Reads English into hibari's symbols. One thread at a time.

    ``british`` switches to the British lexicon and language tag.
    """

    def __init__(self, *, british: bool = False) -> None:
        self.language = "en-GB" if british else "en-US"
        self._g2p = G2P(british=british)
        assets = files("hibari") / "assets"
        self._vocabulary: dict[str, int] = json.loads((assets / "vocab.json").read_text("utf-8"))
        net = json.loads((assets / ("oov_gb.json" if british else "oov.json")).read_text("utf-8"))
        self._longest_word: int = net["maxlen"]
        # The rules take a letter's lower case for one letter, which that of "İ" is not.
        self._letters = frozenset(c for c in net["in"] if ord(c) > 127 and len(c.lower()) == 1
                                  and unicodedata.name(c, "").startswith("LATIN"))

    def warm_up(self) -> None:
        """Load the net for unknown words, which costs about 35 MB with its runtime."""
        self._g2p.oov("warm")

    def read(self, piece: str) -> Reading:
        """How one piece of text is spoken, in symbol ids; see :class:`Reading`."""
        text, unspoken = fold(piece, self._letters)
        phonemes = self._phonemes(text)
        if all(symbol in _SILENT for symbol in phonemes):
            return Reading(unspoken=unspoken)
        ids = (self._vocabulary[symbol] for symbol in phonemes if symbol in self._vocabulary)
        return Reading((_PAD, *ids, _PAD), unspoken)

    def _phonemes(self, text: str) -> str:
        """Phonemes of folded text."""
        if not _SPOKEN.search(text):
            return ""
        text = rewrite(normalize(rewrite(text, BEFORE)), AFTER)
        text = _RUN.sub(self._loosened, _WORD.sub(self._short_enough, text))
        spoken: str = self._g2p(text, normalize_text=False)
        return _BLANK_BEFORE_MARK.sub("", spoken)

    def reach(self, text: str, start: int, symbols: int) -> int:
        """How many characters from ``start`` make about ``symbols`` symbols; see :class:`Reader`."""
        for place in range(start, min(len(text), start + symbols)):
            symbols -= _HEAVY_SYMBOLS if text[place] in _HEAVY else 1
            if symbols <= 0:
                return max(2, place - start)
        return max(2, len(text) - start)

    def _short_enough(self, word: re.Match[str]) -> str:
        """A word in pieces that the net for unknown words takes whole: it drops what is beyond."""
        letters = word[0]
        if len(letters) <= self._longest_word or self._g2p.lexicon.is_known(letters.lower(), "NN"):
            return letters
        count = -(-len(letters) // self._longest_word)
        size = -(-len(letters) // count)
        return " ".join(letters[at:at + size] for at in range(0, len(letters), size))

    @staticmethod
    def _loosened(run: re.Match[str]) -> str:
        """A run of many parts without a blank, with blanks: the rules' work grows with their number cubed."""
        parts: list[str] = SUBTOKEN_RE.findall(run[0])
        if len(parts) <= _MOST_PARTS:
            return run[0]
        return " ".join(part for part in parts if part.strip("-_'’"))
