"""What passes between the stages, and what a stage asks of a family's network.

Everything here is plain data (NumPy, no torch, no Ray), so that a process that runs no network imports none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Utterance:
    """A sentence-sized piece of a request's text, ready to be spoken.

    The spans ``[start, end)`` of a text's utterances follow one another without gaps, so that the joined
    spans give back the text.
    """

    start: int
    end: int
    language: str
    """BCP 47 tag, such as ``en-US``."""
    symbol_ids: tuple[int, ...]
    """Ids in the family's alphabet, with the family's own padding symbols at both ends."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page of a text to be read."""

    text: str
    start: int
    """In characters."""
    most: int
    """Utterances at most."""


@dataclass(frozen=True, slots=True)
class TextPage:
    """Some of a text's utterances, in order: the frontend works a page at a time, so that the first sound
    never waits for the last word."""

    utterances: tuple[Utterance, ...]
    end: int
    """Where the next page begins, in characters; the length of the text when this is the last page."""
    unspoken: str = ""
    """Characters outside the voice's alphabet, which were spoken around."""


@dataclass(frozen=True, slots=True, order=True)
class Need:
    """How soon a listener needs a piece of work; the smallest is served first.

    A request's first sound goes before anyone's later audio; later audio goes by the time at which its
    listener would run dry.
    """

    later: bool
    """False for the work that a request's first sound waits for."""
    due_s: float
    """Unix time: of the request's arrival for a first sound, else of the moment the listener runs dry."""


@dataclass(frozen=True, slots=True)
class SpeechItem:
    """One utterance to be spoken, as the acoustic stage gets it."""

    utterance: Utterance
    voice: str
    speed: float = 1.0
    """Speech rate relative to the voice's own; 2.0 is twice as fast."""
    seed: int = 0
    """Seeds every random draw of this utterance, with its position in the text: audio depends on the
    request alone, never on who shared its batch."""


@dataclass(frozen=True, slots=True)
class AcousticFeatures:
    """What the acoustic stage makes of one utterance and the vocoder turns into sound."""

    frames: int
    arrays: dict[str, Float32] = field(repr=False)
    """The family's own features, by name; their last axis runs over frames."""
    noise_key: tuple[int, int] = (0, 0)
    """(request seed, utterance's start in the text): the key of all noise in this utterance."""


@dataclass(frozen=True, slots=True)
class Window:
    """Frames ``[start, start + frames)`` of a source, to be vocoded in a shape of ``size`` frames."""

    source: object
    """What the family's :meth:`VocoderNetwork.open` returned for the utterance."""
    start: int
    frames: int
    size: int


class AcousticNetwork(Protocol):
    """A family's acoustic model. Called from one thread only."""

    max_symbols: int

    def set_threads(self, threads: int) -> None:
        """Use this many threads for compute."""
        ...

    def forward(self, padded_symbols: int, items: Sequence[SpeechItem]) -> list[AcousticFeatures]:
        """Features of a batch, each item padded to ``padded_symbols``; every item's result is what it would
        be alone."""
        ...


class VocoderNetwork(Protocol):
    """A family's vocoder. Called from one thread only."""

    sample_rate: int
    samples_per_frame: int
    context_frames: int
    """Frames recomputed on each side of a window, so that joined windows equal the whole pass."""

    def set_threads(self, threads: int) -> None:
        """Use this many threads for compute."""
        ...

    def silence(self, frames: int) -> AcousticFeatures:
        """Features of this many frames to warm up with."""
        ...

    def open(self, features: AcousticFeatures) -> object:
        """An utterance's features made ready to be cut into windows."""
        ...

    def forward(self, size: int, windows: Sequence[Window]) -> list[Float32]:
        """Samples in [-1, 1] of each window, ``frames * samples_per_frame`` of them; all windows have the
        same ``size``."""
        ...
