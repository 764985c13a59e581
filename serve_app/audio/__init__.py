"""PCM to wav, pcm, flac, mp3, opus and aac, as streams: bytes leave as soon as the codec has them.

PCM is 16-bit little-endian mono, at a sample rate told once, in chunks of any length: what comes out does
not depend on where the chunks were cut. An encoder belongs to one request and to one thread at a time. The
work is done without the GIL, so encoders run side by side in a small thread pool, off the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from deployments.errors import BadRequest
from serve_app.audio.ffmpeg import CODECS, FfmpegEncoder
from serve_app.audio.flac import FlacEncoder
from serve_app.audio.stream import Encoder
from serve_app.audio.wav import PcmEncoder, WavEncoder

__all__ = ["FORMATS", "AudioFormat", "Encoder", "encoder"]


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """What a client is told of a format: its HTTP media type, and one line about it."""

    media_type: str
    description: str


FORMATS: Mapping[str, AudioFormat] = MappingProxyType({
    "mp3": AudioFormat("audio/mpeg", "MP3, 96 kb/s: plays everywhere"),
    "opus": AudioFormat("audio/ogg", "Opus in Ogg, about 75 kb/s: exact length, earliest sound"),
    "aac": AudioFormat("audio/aac", "AAC-LC in ADTS frames, 80 kb/s"),
    "flac": AudioFormat("audio/flac", "FLAC: lossless, about half the size of wav"),
    "wav": AudioFormat("audio/wav", "16-bit PCM behind a 44-byte header"),
    "pcm": AudioFormat("audio/pcm", "16-bit little-endian mono PCM, no header"),
})


def encoder(format: str, sample_rate: int, *, known_samples: int | None = None) -> Encoder:
    """An encoder to ``format`` (a key of ``FORMATS``) for PCM at ``sample_rate`` Hz.

    ``known_samples`` is the length of the whole stream in samples, where it is known before the first byte
    must leave: wav then states its true size. The other formats need no length and take no notice.

    Raises ``BadRequest`` for a format that does not exist, ``ValueError`` for a sample rate that the format
    has no room for or a length below zero.
    """
    if sample_rate <= 0 or (known_samples is not None and known_samples < 0):
        raise ValueError(f"no audio has {sample_rate} samples a second or {known_samples} in all")
    if format in CODECS:
        return FfmpegEncoder(CODECS[format], sample_rate)
    if format == "flac":
        return FlacEncoder(sample_rate)
    if format == "wav":
        return WavEncoder(sample_rate, known_samples)
    if format == "pcm":
        return PcmEncoder()
    raise BadRequest(f"{format!r} is not an audio format: choose one of {', '.join(FORMATS)}.",
                     param="response_format")
