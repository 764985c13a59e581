"""How a text becomes pages of utterances, whatever the text."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.contracts import Utterance
from deployments.errors import BadRequest
from deployments.text_frontend.english import EnglishReader
from deployments.text_frontend.frontend import TextFrontend

VOCABULARY: dict[str, int] = json.loads((files("hibari") / "assets" / "vocab.json").read_text("utf-8"))
SYMBOLS = {number: symbol for symbol, number in VOCABULARY.items()}
READER = EnglishReader()
FRONTEND = TextFrontend([READER])


def spoken(text: str) -> str:
    """The sounds of a piece, without stress, blanks and punctuation."""
    symbols = "".join(SYMBOLS[number] for number in READER.read(text).symbol_ids if number)
    return "".join(symbol for symbol in symbols if symbol not in " ;:,.!?—…\"()“”ˈˌː")


def pages(text: str, most: int = 8, frontend: TextFrontend = FRONTEND) -> list[Utterance]:
    utterances: list[Utterance] = []
    start = 0
    while start < len(text):
        page = frontend.page(text, start, most=most)
        assert start < page.end <= len(text)
        assert len(page.utterances) <= most
        assert page.utterances or (start, page.end) == (0, len(text))
        utterances += page.utterances
        start = page.end
    return utterances


def parts(text: str, most: int = 8) -> list[str]:
    return [text[u.start:u.end] for u in pages(text, most)]


def test_ten_thousand_letters_lose_none() -> None:
    text = "strengthening" * 770
    utterances = pages(text)
    sounds = sum(len(u.symbol_ids) - 2 for u in utterances)
    assert "".join(text[u.start:u.end] for u in utterances) == text
    assert sounds > 0.5 * len(text)
    assert all(len(u.symbol_ids) <= 240 for u in utterances)


@pytest.mark.parametrize("size", [13, 37, 100, 4999, 5000])
def test_every_digit_is_spoken(size: int) -> None:
    digits = "".join(str(place * place * 7 % 10) for place in range(size))
    heard = "".join(spoken(part) for part in parts(digits))
    assert heard == "".join(spoken(digit) for digit in digits)


def test_long_capitals_are_spelled() -> None:
    text = "QXZK" * 2500
    heard = "".join(spoken(part) for part in parts(text))
    assert heard == "".join(spoken(letter) for letter in "QXZK") * 2500


@pytest.mark.parametrize(("text", "expected"), [
    ("One sentence is here now. Another sentence follows it.", None),
    ("Hi. No. How are you today? I am very well, thank you.",
     ["Hi. No. How are you today? ", "I am very well, thank you."]),
    ("Title\nThe text begins here, and goes on.", ["Title\n", "The text begins here, and goes on."]),
    ("😀 Hello to you all there. 😀 😀\n\n🎉", ["😀 Hello to you all there. 😀 😀\n\n🎉"]),
    ("\n\n  Hello.  \n\n", ["\n\n  Hello.  \n\n"]),
    ("... --- ...", []),
    ("", []),
    ("你好。世界！", []),
])
def test_pages(text: str, expected: list[str] | None) -> None:
    if expected is None:
        expected = ["One sentence is here now. ", "Another sentence follows it."]
    for most in (1, 2, 8):
        assert parts(text, most) == expected


def test_the_last_utterance_of_a_page_takes_what_is_unspeakable() -> None:
    text = "A first sentence is here. " + "😀 " * 3000 + "A second sentence is here. " + "😀" * 3000
    first = FRONTEND.page(text, 0, most=1)
    assert first.end > 5000
    second = FRONTEND.page(text, first.end, most=1)
    assert second.utterances[0].end == second.end == len(text)


def test_a_long_first_sentence_is_cut_at_a_clause() -> None:
    text = ("When the rain had stopped at last and the streets were dry again, the children of the village "
            "came out to play until the sun went down behind the hills.")
    assert parts(text)[0].endswith("dry again, ")
    assert parts("Here is a short sentence first. " + text)[1:] == [text]


def test_unspoken_characters_are_named_once_and_not_without_end() -> None:
    text = "Hello. " + "".join(chr(0x4e00 + number) for number in range(500)) * 2
    unspoken = FRONTEND.page(text, 0, most=8).unspoken
    assert unspoken == "".join(chr(0x4e00 + number) for number in range(32))


def test_languages() -> None:
    for language in (None, "en", "en-US", "EN_us", "en-AU"):
        assert FRONTEND.page("Hello.", 0, language=language, most=1).utterances[0].language == "en-US"
    with pytest.raises(BadRequest) as failure:
        FRONTEND.page("Hello.", 0, language="tlh", most=1)
    assert failure.value.param == "language"


def test_wrong_arguments() -> None:
    for start, most in ((-1, 1), (7, 1), (0, 0)):
        with pytest.raises(ValueError, match="no page"):
            FRONTEND.page("Hello.", start, most=most)
    with pytest.raises(ValueError, match="reader"):
        TextFrontend([])
    with pytest.raises(ValueError, match="64"):
        TextFrontend([READER], longest_utterance=63)


PIECES = st.lists(st.one_of(
    st.sampled_from(["Hello ", "world. ", "Dr. ", "$5", "1,250", "3.14", "http://x.y/z", "[a](/b/)", "½",
                     "x²", "😀", "\n\n", "٣", "A.M.", "'s", "1st", "n't", "ing", "-", "0", "İ", "ﬁ", "&amp;",
                     "zyxgl", "II", "Chapter "]),
    st.text(max_size=10), st.text("0123456789.,-$/:%'", max_size=12),
    st.text("aAbB'’.-_ 1[](){}<>*&^#@!~`|", max_size=12)),
    max_size=40).map("".join)


@given(PIECES, st.integers(1, 5), st.sampled_from([64, 240]))
@settings(max_examples=200, deadline=2000)
def test_any_text_pages_through(text: str, most: int, longest: int) -> None:
    frontend = TextFrontend([READER], longest_utterance=longest)
    utterances = pages(text, most, frontend)
    if utterances:
        assert "".join(text[u.start:u.end] for u in utterances) == text
        assert [u.start for u in utterances] == [0, *(u.end for u in utterances[:-1])]
    assert all(3 <= len(u.symbol_ids) <= longest for u in utterances)
    assert pages(text, 1000, frontend) == utterances


@pytest.mark.parametrize("unit", ["😀", " ", ".", "a-", "Ab", "a1", "%&", "1,", "1.", "a'", "$", "([",
                                  "x\u0301", "12345", "word and "])
def test_hostile_text_takes_linear_time(unit: str) -> None:
    text = (unit * 20_000)[:20_000]
    began = time.perf_counter()
    pages(text)
    assert time.perf_counter() - began < 6.0


def test_a_long_text_pages_through_in_linear_time() -> None:
    def seconds(sentences: int) -> float:
        text = " ".join(f"Sentence number {number} of this text is not like another one."
                        for number in range(sentences))
        began = time.perf_counter()
        pages(text)
        return time.perf_counter() - began

    seconds(100)
    short, long = seconds(600), seconds(3200)          # the long one has about 200,000 characters
    assert long < 3 * 3200 / 600 * short


def test_nothing_to_say_is_quick() -> None:
    began = time.perf_counter()
    page = FRONTEND.page("😀" * 100_000, 0, most=8)
    assert (page.utterances, page.end, page.unspoken) == ((), 100_000, "😀")
    assert time.perf_counter() - began < 3.0


def test_the_process_stays_small() -> None:
    """No torch at all, and the runtime of the net for unknown words only when a word needs it."""
    program = """if True:
        import sys
        from deployments.text_frontend.english import EnglishReader
        from deployments.text_frontend.frontend import TextFrontend
        frontend = TextFrontend([EnglishReader()])
        frontend.page("It was read at nine.", 0, most=1)
        print("torch" in sys.modules, "onnxruntime" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
