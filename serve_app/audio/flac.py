"""FLAC by libsndfile: lossless, a frame of 1152 samples at a time, no priming.

Not by FFmpeg, like its lossy sisters: FFmpeg's FLAC encoder holds 7 MiB a stream, this one an eighth of one,
at the same speed and size. The header states no length (0: unknown, as the format allows for a stream).
Players do not mind; libsndfile itself, as a reader, does.
"""

from __future__ import annotations

import soundfile

from serve_app.audio.stream import Encoder, Outlet

_MAX_RATE = 655_350     # what the header has room for
# libFLAC's level 2, as soundfile counts. From level 3 on its frames are 4096 samples, a sixth of a second
# at 24 kHz before the first can leave, and save 1 % on speech.
_COMPRESSION_LEVEL = 0.25


class FlacEncoder(Encoder):
    """One FLAC stream. soundfile calls libsndfile without the GIL."""

    def __init__(self, sample_rate: int) -> None:
        super().__init__()
        if sample_rate > _MAX_RATE:
            raise ValueError(f"FLAC goes no higher than {_MAX_RATE} samples a second, not {sample_rate}")
        self._outlet = _Outlet()
        self._empty = True
        self._file = soundfile.SoundFile(self._outlet, "w", sample_rate, 1, "PCM_16", format="FLAC",
                                         compression_level=_COMPRESSION_LEVEL)

    def _take(self, pcm: bytes) -> bytes:
        if pcm:
            self._file.buffer_write(pcm, "int16")
            self._empty = False
        return self._outlet.drain()

    def _end(self) -> bytes:
        if self._empty:
            self._file.buffer_write(bytes(2), "int16")      # libsndfile writes no header before a sample
        self._file.close()
        return self._outlet.drain()

    def _release(self) -> None:
        self._file.close()


class _Outlet(Outlet):
    """Seems to seek, as libsndfile wants: what it goes back to mend in its header at the end has left."""

    def __init__(self) -> None:
        super().__init__()
        self._length = 0
        self._position = 0

    def write(self, data: bytes) -> int:
        at_end = self._position == self._length
        self._position += len(data)
        if at_end:
            self._length = self._position
            super().write(data)
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = (0, self._position, self._length)[whence] + offset
        return self._position

    def tell(self) -> int:
        return self._position
