"""Where a text may be cut: after sentences, and inside those that are too long.

Everything works from a position onwards and looks no further than a bounded window, so that the first
sentence of a long text costs as much as that of a short one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_BREAKS = "\n\r\v\f\x85\u2028\u2029"
_FULL_STOPS = "。！？｡؟۔।॥"          # end a sentence even with no blank after them
_CLOSERS = "\"'”’»)\\]}）】》」』"
_STOP = re.compile(
    rf"(?P<mark>[.!?…．{_FULL_STOPS}]+)(?:[{_CLOSERS}]|\[\d{{1,3}}\])*(?P<gap>\s*)"
    rf"|(?P<line>[{_BREAKS}]\s*)")
_CLAUSE = re.compile(rf"(?:[,;:)][{_CLOSERS}]*(?=\s)|(?<=\s)[-–]+(?=\s)|[—，；：、）])\s*")
_BLANK = re.compile(r"\s+")
_HYPHEN = re.compile(r"(?<=[^\W_])[-–/_]+(?=[^\W_])")
_OPENERS = "\"'“‘«([{¿¡"
_NEXT_WORD = re.compile(rf"[{re.escape(_OPENERS)}]*([^\W\d_]+)(?!\.)")

def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A full stop after these never ends a sentence.
_BEFORE_NAMES = _words("mr mrs ms mx dr prof gen gov sen rep capt lt col sgt cmdr rev hon pres supt cpl maj "
                       "adm fr msgr mt ft messrs mme mlle e.g i.e cf viz vs approx")
# … after these not before a number: "No. 5", "Jan. 5".
_BEFORE_NUMBERS = _words("no nos nr fig figs vol vols p pp ch sec art eq ca tel ext jan feb mar apr jun jul "
                         "aug sep sept oct nov dec")
# … after these, and after initials and dotted abbreviations (J., U.S., p.m.), only before a word that
# seldom follows them inside a sentence.
_MAYBE_LAST = _words("inc ltd co corp jr sr st ave blvd rd dept bros esq")
_FIRST_WORDS = _words("the a an this that these those there here it he she we they you i my our his her "
                      "their its in on at as for from with by after before but and or so if when while then "
                      "now what who why how where which yes no not however please let's let")
_DOTTED = re.compile(r"[^\W\d_](?:\.[^\W\d_]{1,2})*|[A-Z][a-z]\.[A-Z]")


def sentences(text: str, start: int = 0, *, longest: int = 300) -> Iterator[tuple[int, int]]:
    """Spans ``[start, end)`` of the sentences from ``start`` to the end of the text, one after another.

    Blanks and closing quotes belong to the sentence before them. What is longer than ``longest``
    characters (at least 2) comes in pieces. A span depends only on the text from its start onwards, and
    finding it looks at no more than ``longest`` characters and the next word.
    """
    if longest < 2:
        raise ValueError("a span has room for at least 2 characters")
    while start < len(text):
        end = _sentence_end(text, start, min(len(text), start + longest))
        yield start, end
        start = end


def cut(text: str, start: int, end: int) -> int:
    """A position strictly inside ``[start, end)`` to cut it at, for a span of 2 characters or more.

    Near its middle at a clause boundary, else at the blank closest to the middle, else at such a hyphen
    or slash, else between two characters that do not make one.
    """
    if end - start < 2:
        raise ValueError("a span of one character cannot be cut")
    clause = clause_boundary(text, start, end)
    if clause is not None:
        return clause
    middle = (start + end) // 2
    for pattern in (_BLANK, _HYPHEN):
        places = _places(pattern, text, start, end)
        if places:
            return min(places, key=lambda place: abs(place - middle))
    for away in range(max(middle - start, end - middle)):
        for place in (middle - away, middle + away):
            if start < place < end and not _joined(text, place):
                return place
    return middle


def clause_boundary(text: str, start: int, end: int) -> int | None:
    """The clause boundary closest to the middle of a span, if its middle half has one: a cut further out
    would leave a fragment."""
    middle, quarter = (start + end) / 2, (end - start) / 4
    places = [place for place in _places(_CLAUSE, text, start, end) if abs(place - middle) <= quarter]
    return min(places, key=lambda place: abs(place - middle), default=None)


def ends_line(text: str, start: int, end: int) -> bool:
    """Whether a span ends with the line, or with the paragraph."""
    blanks = text[start + len(text[start:end].rstrip()):end]
    return any(c in _BREAKS for c in blanks)


def _sentence_end(text: str, start: int, limit: int) -> int:
    for stop in _STOP.finditer(text, start, limit):
        if _ends(text, start, stop):
            return stop.end()
    return limit if limit == len(text) else cut(text, start, limit)


def _ends(text: str, start: int, stop: re.Match[str]) -> bool:
    following = text[stop.end():stop.end() + 1]
    blanks = stop["gap"] or stop["line"] or ""
    if not following or sum(c in _BREAKS for c in blanks.replace("\r\n", "\n")) > 1:
        return True
    mark = stop["mark"]
    if mark is None:
        return not following.islower()     # a line that goes on in lower case was only wrapped
    if mark[-1] in _FULL_STOPS:
        return True
    if not blanks or following.islower():
        return False
    return mark not in (".", "．") or _ends_after_word(text, start, stop)


def _ends_after_word(text: str, start: int, stop: re.Match[str]) -> bool:
    """Whether a full stop ends its sentence, judged by the words around it."""
    before = text[max(start, stop.start() - 24):stop.start()]
    word = before.split()[-1] if before and not before[-1].isspace() else ""
    word = word.lstrip(_OPENERS)
    lower = word.lower()
    if lower in _BEFORE_NAMES:
        return False
    if lower in _BEFORE_NUMBERS and text[stop.end()].isdigit():
        return False
    if word.isdigit() and len(word) <= 3 and text[start:stop.start()].strip() == word:
        return False                       # "1. Milk": the number of an item
    if lower in _MAYBE_LAST or _DOTTED.fullmatch(word):
        following = _NEXT_WORD.match(text, stop.end(), stop.end() + 24)
        return following is not None and following[1].lower() in _FIRST_WORDS
    return True


def _places(pattern: re.Pattern[str], text: str, start: int, end: int) -> list[int]:
    # A mark at the very start is no place, and what it stands behind is not to be looked at.
    return [found.end() for found in pattern.finditer(text, start, end)
            if start < found.start() and found.end() < end]


def _joined(text: str, place: int) -> bool:
    """Whether the characters on both sides of a place make one: accents, emoji sequences, CR LF."""
    before, after = text[place - 1], text[place]
    return (unicodedata.category(after)[0] == "M" or "\u200d" in (before, after)
            or "\U0001f3fb" <= after <= "\U0001f3ff" or "\u1160" <= after <= "\u11ff"
            or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
            or (before == "\r" and after == "\n"))

