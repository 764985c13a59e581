"""Where texts are cut: sentences, clauses, and never a character lost."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.text_frontend.splitting import clause_boundary, cut, sentences

# Random text with much of what splitting looks at.
TEXTS = st.lists(
    st.one_of(st.sampled_from([". ", "! ", "? ", "…", "。", "？", "\n", "\n\n", "\r\n", ", ", "; ", "”", ")",
                               " ", "Dr.", "e.g.", "U.S.", "3.14", "word", "The ", "é", "e\u0301",
                               "👍🏽", "👩\u200d🚀"]),
              st.text(max_size=12)),
    max_size=40).map("".join)


def split(text: str, start: int = 0, longest: int = 300) -> list[str]:
    return [text[a:b] for a, b in sentences(text, start, longest=longest)]


@pytest.mark.parametrize("parts", [
    ["One. ", "Two! ", "Three? ", "Four… ", "Five"],
    ["He said “Stop!” ", "Then he left."],
    ["(It was late.) ", "He left."],
    ["“What?” he said."],
    ["Wait... what?"],
    ["Wait... ", "What?"],
    ["Dr. Smith met Mr. Jones and Mrs. Hall. ", "They talked."],
    ["J. K. Rowling and J.R.R. Tolkien wrote books. ", "Both did."],
    ["It costs 3.14 dollars. ", "Version 2.0.1 is out."],
    ["Fruit, e.g. apples, i.e. Granny Smith, is good."],
    ["The U.S. army and the U.S. Senate met. ", "It rained."],
    ["He lives in the U.S. ", "He likes it."],
    ["Come at 9 p.m. ", "We eat at ten."],
    ["Come at 9 p.m. on Friday."],
    ["Acme Inc. ", "The best. ", "Acme Inc. shares rose."],
    ["See No. 5 and Fig. 3 on p. 7. ", "No. ", "That is all."],
    ["On Jan. 5 we met. ", "It was in 1990. ", "He left."],
    ["1. Milk\n", "2. Eggs\n", "3. Bread"],
    ["Heading\n", "Text that\nwas only wrapped. ", "More."],
    ["No stop at the end\n\n", "and a new paragraph"],
    ["A line\r\n", "Another line\r\n\r\n", "end"],
    ["你好。", "世界！", "真的吗？", "好"],
    ["「你好。」", "他说"],
    ["Claimed.[12] ", "Denied."],
    ["See www.example.com for more. ", "Or a.b@example.com!"],
    ["  Leading blanks. ", "More.  "],
    ["Really?! ", "Yes!!! ", "No."],
    ["Vitamin C. ", "It helps."],
    ["“Mr.” is short. ", "“Mrs.” too."],
])
def test_sentences(parts: list[str]) -> None:
    assert split("".join(parts)) == parts


@given(TEXTS, st.integers(2, 60))
@settings(max_examples=300, deadline=None)
def test_spans_give_back_the_text(text: str, longest: int) -> None:
    parts = split(text, longest=longest)
    assert "".join(parts) == text
    assert all(0 < len(part) <= longest for part in parts)


@given(TEXTS, st.integers(5, 60))
@settings(max_examples=100, deadline=None)
def test_spans_depend_on_the_text_from_their_start_only(text: str, longest: int) -> None:
    spans = list(sentences(text, longest=longest))
    for at, (start, _) in enumerate(spans[:8]):
        assert list(sentences(text, start, longest=longest)) == spans[at:]
        assert split("Other words" + text[start:], 11, longest) == [text[a:b] for a, b in spans[at:]]


def test_the_first_sentence_of_a_long_text_is_as_fast_as_any() -> None:
    for text in ("word " * 2_000_000, "Hi. " * 2_000_000, "x" * 10_000_000, " " * 10_000_000):
        began = time.perf_counter()
        next(sentences(text))
        assert time.perf_counter() - began < 0.05


@pytest.mark.parametrize(("text", "expected"), [
    ("one two, three four five six", "one two, "),
    ("a, one two three; four five six seven", "a, one two three; "),
    ("one two three four", "one two "),
    ("a, bcdefghijklmnopqrstuvwxyz and on", "a, bcdefghijklmnopqrstuvwxyz "),
    ("it costs 1,250 dollars today", "it costs 1,250 "),
    ("他说你好，世界真大", "他说你好，"),
    ("before — and afterwards", "before — "),
    ("(as he said) they went", "(as he said) "),
    ("wellbehaved-children", "wellbehaved-"),
    ("abcdefgh", "abcd"),
    ("abce\u0301fgh", "abc"),
    ("a👩\u200d🚀b", "a"),
    ("ab👍🏽", "ab"),
    ("\ud83d\ude00", "\ud83d"),
    ("a\ud83d\ude00b", "a"),
])
def test_cut(text: str, expected: str) -> None:
    assert text[:cut(text, 0, len(text))] == expected


def test_a_clause_is_cut_only_in_the_middle_half() -> None:
    assert clause_boundary("Yes, this is a long way to say it", 0, 33) is None
    assert clause_boundary("This is a long way, as it were to say it", 0, 40) == 20


@given(st.text(min_size=2, max_size=80))
@settings(max_examples=300, deadline=None)
def test_a_cut_is_inside_the_span(text: str) -> None:
    assert 0 < cut(text, 0, len(text)) < len(text)
    if len(text) > 3:
        assert 1 < cut(text, 1, len(text) - 1) < len(text) - 1


def test_nothing_to_cut() -> None:
    with pytest.raises(ValueError, match="one character"):
        cut("a", 0, 1)
    assert list(sentences("")) == []
    assert list(sentences("abc", 3)) == []
