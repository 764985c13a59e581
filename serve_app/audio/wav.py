"""The formats that are PCM already: pcm passes through, wav puts a header before it."""

from __future__ import annotations

import struct

from serve_app.audio.stream import SAMPLE_BYTES, Encoder

UNKNOWN_SIZE = 0xFFFFFFFF   # what readers take for "until the stream ends"
_RIFF_REST = 36             # bytes of the header that the RIFF size counts along with the data


def wav_header(sample_rate: int, samples: int | None) -> bytes:
    """The 44 bytes before s16le mono PCM at ``sample_rate`` Hz, ``samples`` long (None: not known yet).

    A length over the 4 GiB that a RIFF can state counts as not known.
    """
    data = UNKNOWN_SIZE if samples is None else samples * SAMPLE_BYTES
    riff = data + _RIFF_REST
    if riff > UNKNOWN_SIZE:
        riff = data = UNKNOWN_SIZE
    return struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", riff, b"WAVE", b"fmt ", 16, 1, 1, sample_rate,
                       sample_rate * SAMPLE_BYTES, SAMPLE_BYTES, 8 * SAMPLE_BYTES, b"data", data)


class PcmEncoder(Encoder):
    """Passes samples through."""

    def _take(self, pcm: bytes) -> bytes:
        return pcm

    def _end(self) -> bytes:
        return b""


class WavEncoder(Encoder):
    """Puts the header before the first bytes, and keeps its word about the length."""

    def __init__(self, sample_rate: int, known_samples: int | None) -> None:
        super().__init__()
        self._header = wav_header(sample_rate, known_samples)
        self._known_samples = known_samples
        self._samples = 0

    def _take(self, pcm: bytes) -> bytes:
        self._samples += len(pcm) // SAMPLE_BYTES
        header, self._header = self._header, b""
        return header + pcm if header else pcm

    def _end(self) -> bytes:
        if self._known_samples not in (None, self._samples):
            # The header left long ago: a reader would take a torn stream for a whole one.
            raise ValueError(f"{self._known_samples} samples were promised, {self._samples} came")
        return self._take(b"")
