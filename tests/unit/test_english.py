"""What the English reader speaks for a text, compared with the same words written out."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from deployments.text_frontend.english import EnglishReader

VOCABULARY: dict[str, int] = json.loads((files("hibari") / "assets" / "vocab.json").read_text("utf-8"))
SYMBOLS = {number: symbol for symbol, number in VOCABULARY.items()}
READER = EnglishReader()


def spoken(text: str) -> str:
    """The sounds of a piece, without stress, blanks and punctuation."""
    symbols = "".join(SYMBOLS[number] for number in READER.read(text).symbol_ids if number)
    return "".join(symbol for symbol in symbols if symbol not in " ;:,.!?—…\"()“”ˈˌː")


READINGS = {
    # Money
    "It costs $100.": "It costs one hundred dollars.",
    "I paid $1.50 for it": "I paid one dollar and fifty cents for it",
    "I paid $1.5 for it": "I paid one dollar and fifty cents for it",
    "a $2.5bn deal": "a two point five billion dollars deal",
    "It made $5M": "It made five million dollars",
    "It costs 5€": "It costs five euros",
    "It costs 100 $": "It costs one hundred dollars",
    "a loss of -$5": "a loss of minus five dollars",
    "US$5": "five U S dollars",
    "₽5": "five rubles",
    "¥300": "three hundred yen",
    "$5/mo": "five dollars per month",
    "＄20": "twenty dollars",
    # Times and dates
    "Meet at 9:30PM": "Meet at nine thirty P.M.",
    "from 10:30-11:30": "from ten thirty to eleven thirty",
    "7am-8pm": "seven A.M. to eight P.M.",
    "2022-12-29": "December twenty-ninth, twenty twenty two",
    "2022/12/29": "December twenty-ninth, twenty twenty two",
    "29.12.2022": "December twenty-ninth, twenty twenty two",
    "2022-12-29T10:30": "December twenty-ninth, twenty twenty two at ten thirty",
    "pp. 3-4.": "pages three to four.",
    "in 2020-2021.": "in twenty twenty to twenty twenty one.",
    "the 1990s": "the nineteen nineties",
    # Numbers
    "2/3 of it": "two thirds of it",
    "½ a cup": "one half a cup",
    "3½ cups": "three and one half cups",
    "1 1/2 cups": "one and one half cups",
    "⅔ cup": "two thirds cup",
    "3.14": "three point one four",
    "version 3.10": "version three point one zero",
    "v2.0.1": "v two point zero point one",
    "192.168.1.1": "one hundred ninety two dot one hundred sixty eight dot one dot one",
    "1,250 people": "one thousand two hundred fifty people",
    "₹1,00,000": "one hundred thousand rupees",
    "1'000'000 people": "one million people",
    "1,2,3": "one, two, three",
    "25% off": "twenty five percent off",
    "5-10% off": "five to ten percent off",
    "№ 5": "number five",
    "#3": "number three",
    "agent 007": "agent zero zero seven",
    "1234567890123": "one two three four five six seven eight nine zero one two three",
    "−5 °C": "minus five degrees Celsius",
    "7/100": "seven over one hundred",
    "16:9": "sixteen to nine",
    "1.5e-3": "one point five times ten to the power of minus three",
    "10⁻³": "ten to the power of minus three",
    "~5": "about five",
    "5 - 3 = 2": "five minus three equals two",
    "1920x1080": "nineteen twenty by ten eighty",
    "24/7": "twenty four seven",
    "٣٤": "thirty four",
    "①": "one",
    "(555) 123-4567": "five five five, one two three, four five six seven",
    "+1 555 123 4567": "plus one, five five five, one two three, four five six seven",
    # Units
    "Add 50g of sugar.": "Add fifty grams of sugar.",
    "10 m": "ten meters",
    "1 L": "one liter",
    "5 m²": "five square meters",
    "3 m/s": "three meters per second",
    "5'10\"": "five foot ten",
    # Addresses and names
    "https://www.example.com/a?b=1":
        "H T T P S, W W W dot example dot com slash a question mark b equals one",
    "joe.smith@example.com": "joe dot smith at example dot com",
    "Visit example.com.": "Visit example dot com.",
    "file.txt": "file dot txt",
    "Node.js": "Node dot js",
    "C++": "C plus plus",
    "C#": "C sharp",
    "I/O": "I O",
    "AT&T": "A.T. and T",
    "AT&amp;T": "A.T. and T",
    "CO₂": "C O two",
    "π": "pi",
    "α-helix": "alpha helix",
    "E = mc²": "E equals m c squared",
    "a ≤ b": "a less than or equal to b",
    # Letters
    "ｆｕｌｌ ｗｉｄｔｈ": "full width",
    "𝓗𝓮𝓵𝓵𝓸": "Hello",
    "cafe\u0301": "café",
    "Ħello": "Hello",
    "wo\u200brd \u202eword\u0007": "word word",
    "it’s ‘fine’": "it's 'fine'",
    "ten‑year‐old": "ten-year-old",
    "wait—what": "wait — what",
    "HELLO WORLD": "hello world",
    "\ud83dword\ude00": "word",
    "fine 👍🏽 you": "fine you",
    # Markup
    "see [the docs](https://x.org/y) now": "see the docs now",
    "[a](/b/)": "a",
    "![logo](x.png) text": "logo text",
    "[![logo](x.png)](https://x.org) text": "logo text",
    "[[red](/b/)](/c/)": "red",
    "## Heading": "Heading",
    "**bold** and `code`": "bold and code",
    "<b>bold</b>": "bold",
}


@pytest.mark.parametrize("text", READINGS)
def test_reading(text: str) -> None:
    assert spoken(text) == spoken(READINGS[text])


def test_phonemes_become_padded_ids() -> None:
    ids = READER.read("Hello there.").symbol_ids
    assert ids[0] == ids[-1] == 0
    assert "".join(SYMBOLS[number] for number in ids[1:-1]) == "həlˈO ðˈɛɹ."


@pytest.mark.parametrize("text", ["It is 8 PM.", "He lives in the U.S.", "It has vitamin C."])
def test_a_sentence_keeps_its_full_stop(text: str) -> None:
    assert SYMBOLS[READER.read(text).symbol_ids[-2]] == "."


def test_british() -> None:
    reader = EnglishReader(british=True)
    assert reader.language == "en-GB"
    assert reader.read("bath").symbol_ids != READER.read("bath").symbol_ids


@pytest.mark.parametrize(("text", "unspoken"), [
    ("Hello 你好 world", "你好"), ("Привет!", "Привет"), ("ok 👍🏽", "👍🏽"), ("a\u200bb\x00c\ud800", ""),
    ("naïve café Łódź Straße Nguyễn", ""), ("Ωμέγα", "Ωμέγα"), ("مرحبا", "مرحبا"), ("♥ a ♥", "♥")])
def test_characters_outside_the_alphabet_are_reported(text: str, unspoken: str) -> None:
    assert READER.read(text).unspoken == unspoken
