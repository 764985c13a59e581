"""The lossy formats: FFmpeg's encoders and muxers (PyAV), writing bytes that leave at once.

**Length.** Lossy codecs sound a little late: their first frames decode to silence, the *priming*. Ogg Opus
states it, and where the sound ends, so players cut to the sample. A stream of bare mp3 or ADTS frames has no
place to say so (the Xing header of mp3 needs the number of frames, known only at the end). So where the audio
itself begins with silence, as speech does, that much less of it is fed: the priming stands in for it, the
sound comes at its own time, and the length is right within the last frame. Audio that begins at once is never
cut or faded; it comes later by the priming (mp3 46 ms, aac 43 ms at 24 kHz).

**The GIL** is released by PyAV while FFmpeg converts, encodes and muxes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import av
import numpy as np

from serve_app.audio.stream import SAMPLE_BYTES, Encoder, Outlet

_SILENCE = 32    # of 32768, -60 dB: what priming may stand in for unheard


@dataclass(frozen=True, slots=True)
class Codec:
    """How FFmpeg makes one format. ``bit_rate`` in bits a second; ``priming`` in samples of the codec's rate,
    where the container cannot state it."""

    container: str
    name: Literal["libmp3lame", "libopus", "aac"]
    bit_rate: int
    priming: int = 0
    encoder_options: Mapping[str, str] = field(default_factory=dict)
    muxer_options: Mapping[str, str] = field(default_factory=dict)


# Bit rates and efforts: on 12 s of synthetic speech at 24 kHz, the mel spectrum after decoding differs from
# the original by 0.4 to 0.6 dB on average in all three, and more effort cost CPU but brought it no nearer.
CODECS: Mapping[str, Codec] = {
    "mp3": Codec("mp3", "libmp3lame", 96_000, priming=1105, encoder_options={
        "compression_level": "7",           # a third cheaper than the default 5, no worse from 96 kb/s up
    }, muxer_options={
        "id3v2_version": "0",               # a tag would name nothing but the muxer
    }),
    # From 64 kb/s libopus leaves speech prediction for its transform, which is both nearer and cheaper.
    "opus": Codec("ogg", "libopus", 64_000, encoder_options={
        "compression_level": "5",
    }, muxer_options={
        "page_duration": "20000",           # microseconds: every 20 ms packet leaves in a page of its own
        "fflags": "+bitexact",              # the serial number is not random: same PCM, same bytes
    }),
    "aac": Codec("adts", "aac", 80_000, priming=1024, encoder_options={
        "aac_coder": "fast",                # three times cheaper than the default, and nearer on speech
    }),
}


class FfmpegEncoder(Encoder):
    """One lossy stream. Memory: under 1 MiB, whatever the length; long chunks are taken a second at a time."""

    def __init__(self, codec: Codec, sample_rate: int) -> None:
        super().__init__()
        self._codec = codec
        self._sample_rate = sample_rate
        self._encoded = 0                   # samples given to FFmpeg: the clock of the stream
        self._trimmable = codec.priming     # samples of leading silence that priming may still stand in for
        self._outlet = Outlet()
        self._container = av.open(self._outlet, "w", format=codec.container,
                                  container_options={"flush_packets": "1", **codec.muxer_options})
        self._stream = self._container.add_stream(codec.name, rate=_codec_rate(codec.name, sample_rate),
                                                  options=dict(codec.encoder_options))
        self._stream.codec_context.layout = "mono"
        self._stream.codec_context.bit_rate = codec.bit_rate
        self._container.start_encoding()

    def _take(self, pcm: bytes) -> bytes:
        samples = memoryview(pcm)
        if self._trimmable:
            samples = samples[self._leading_silence(samples) * SAMPLE_BYTES:]
        self._encode(samples)
        return self._outlet.drain()

    def _end(self) -> bytes:
        if not self._encoded:
            # No player opens a stream without frames: nothing, or silence trimmed away, becomes one sample.
            self._encode(memoryview(bytes(SAMPLE_BYTES)))
        end_s = Fraction(self._encoded, self._sample_rate)
        for packet in self._stream.encode(None):
            # libmp3lame can flush a frame that begins after the end of the sound.
            if self._codec.priming and packet.pts is not None and packet.pts * packet.time_base >= end_s:
                continue
            self._container.mux(packet)
        self._container.close()
        return self._outlet.drain()

    def _release(self) -> None:
        self._container.close()
        del self._stream, self._container   # the codec's memory goes with the last reference

    def _leading_silence(self, pcm: memoryview) -> int:
        """How many samples at the head of ``pcm`` are still silence that priming stands in for."""
        head = np.frombuffer(pcm, "<i2")[:self._trimmable].astype(np.int32)
        loud = np.flatnonzero(np.abs(head) > _SILENCE)
        if loud.size:
            self._trimmable = 0
            return int(loud[0])
        self._trimmable -= head.size
        return int(head.size)

    def _encode(self, pcm: memoryview) -> None:
        if pcm and not self._encoded:
            with _one_cpu():                # one sample is enough for PyAV to set itself up
                self._encode_frame(pcm[:SAMPLE_BYTES])
            pcm = pcm[SAMPLE_BYTES:]
        second = self._sample_rate * SAMPLE_BYTES
        for start in range(0, len(pcm), second):
            self._encode_frame(pcm[start:start + second])

    def _encode_frame(self, pcm: memoryview) -> None:
        frame = av.AudioFrame("s16", "mono", len(pcm) // SAMPLE_BYTES)
        frame.planes[0].update(pcm)         # type: ignore[arg-type]  # takes any buffer, is typed as bytes
        frame.sample_rate = self._sample_rate
        frame.time_base = Fraction(1, self._sample_rate)
        frame.pts = self._encoded
        self._encoded += frame.samples
        self._container.mux(self._stream.encode(frame))


def _codec_rate(codec: str, sample_rate: int) -> int:
    """The codec's own rate for ``sample_rate``: the same where allowed, else the next above (22050 in Opus).

    PyAV resamples to it. ``ValueError`` when the codec has none as high.
    """
    allowed = av.Codec(codec, "w").audio_rates
    if not allowed or sample_rate in allowed:
        return sample_rate
    above = [rate for rate in allowed if rate > sample_rate]
    if not above:
        raise ValueError(f"{codec} goes no higher than {max(allowed)} samples a second, not {sample_rate}")
    return min(above)


@contextmanager
def _one_cpu() -> Iterator[None]:
    """Show the calling thread a single CPU while a stream takes its first sample.

    PyAV converts samples in a filter graph, made at that moment, which starts a thread for every CPU it sees,
    up to sixteen, and never uses them. A hundred requests would hold over a thousand.
    """
    try:
        cpus = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cpus)})
    except (AttributeError, OSError):       # not Linux, or not allowed: more threads, nothing worse
        yield
        return
    try:
        yield
    finally:
        os.sched_setaffinity(0, cpus)
