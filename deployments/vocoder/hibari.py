"""hibari's vocoder: conditioning and f0 -> 24 kHz sound, window by window.

Architecture after hibari-tts 0.2.1 (Apache-2.0), read from its ONNX graph: a ConvNeXt stack as in Vocos
(Siuzdak, "Vocos: Closing the gap between time-domain and Fourier-based neural vocoders", 2023), which shapes
the spectrum of a pulse source and of noise, and an inverse STFT.

Windows equal the whole pass: every layer sees the frames that it would see in the whole, or the zeros
around the utterance; pulses go on from a known phase; noise is drawn by position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from deployments.contracts import AcousticFeatures, Float32, Window
from deployments.hibari_blocks import ConvNeXtBlock, frozen
from deployments.hibari_weights import vocoder_state
from deployments.vocoder import hibari_signal as signal

_FEATURES = 130
_CHANNELS = 256
_TAPS = 7
_BLOCKS = 8
_NETWORK_REACH = (1 + _BLOCKS) * (_TAPS // 2)
_BEFORE = _NETWORK_REACH + signal.BEFORE
_AFTER = _NETWORK_REACH + signal.AFTER
"""Frames around a window that its samples depend on: 28 before, 29 after."""
_FEWEST_FRAMES = 3
"""The pulses' mirror image at an utterance's end must lie within it."""


@dataclass(frozen=True, slots=True)
class HibariSource:
    """An utterance's features, ready to be cut into windows."""

    frames: int
    cond: Tensor
    """``[F, 130]``."""
    f0: Tensor
    """``[F]``, Hz."""
    phase: Tensor
    """Pulse phase at each frame's start, in cycles, float64 ``[F]``."""
    noise_key: tuple[int, int]


class HibariVocoder:
    """The vocoder stage's network of the hibari family.

    Args:
        noise: scales the noise; 0 leaves it out, so that the sound is a plain function of the features.
    """

    sample_rate = signal.SAMPLE_RATE
    samples_per_frame = signal.HOP
    context_frames = max(_BEFORE, _AFTER)

    def __init__(self, noise: float = 1.0) -> None:
        self._net = frozen(HibariVocoderNet, vocoder_state())
        self._noise = noise

    def set_threads(self, threads: int) -> None:
        """Use this many threads for compute: torch's setting, which is the process's."""
        torch.set_num_threads(threads)

    def silence(self, frames: int) -> AcousticFeatures:
        """Features of this many frames, at least 3, to warm up with."""
        arrays = {"cond": np.zeros((_FEATURES, frames), np.float32), "f0": np.zeros(frames, np.float32)}
        return AcousticFeatures(frames, arrays)

    def open(self, features: AcousticFeatures) -> HibariSource:
        """Copies the features: those that come from an object store are read-only, and pin it.

        Raises:
            ValueError: the arrays do not fit each other, or hold fewer than 3 frames.
        """
        frames, cond, f0 = features.frames, features.arrays["cond"], features.arrays["f0"]
        if cond.shape != (_FEATURES, frames) or f0.shape != (frames,) or frames < _FEWEST_FRAMES:
            raise ValueError(f"cond {cond.shape} and f0 {f0.shape} are no features of {frames} frames")
        pitch = torch.from_numpy(f0.copy())
        return HibariSource(
            frames=frames,
            cond=torch.from_numpy(cond.T.copy()),
            f0=pitch,
            phase=signal.phases(pitch),
            noise_key=features.noise_key,
        )

    @torch.inference_mode()
    def forward(self, size: int, windows: Sequence[Window]) -> list[Float32]:
        """Samples in [-1, 1] at 24 kHz of each window, ``frames * 300`` of them.

        Raises:
            ValueError: a window has another size, or reaches beyond its source.
            TypeError: a window's source is not from :meth:`open`.
        """
        sources = [_checked(window, size) for window in windows]
        cond = torch.zeros(len(windows), size + _BEFORE + _AFTER, _FEATURES)
        for row, source, window in zip(cond, sources, windows, strict=True):
            first, end = window.start - _BEFORE, window.start + size + _AFTER
            real = source.cond[max(first, 0) : end]
            row[max(-first, 0) :][: len(real)] = real
        starts = torch.tensor([window.start for window in windows])
        lengths = torch.tensor([source.frames for source in sources])
        position = starts[:, None] + torch.arange(-_BEFORE, size + _AFTER)
        within = (position >= 0) & (position < lengths[:, None])
        exists = None if within.all() else within.float()  # inside an utterance nothing needs a mask

        excitation = self._excitation(size, sources, starts, lengths, at_edge=exists is not None)
        spectrum = signal.spectrum_of(self._net(cond, exists), excitation, self._z(size, sources, starts))
        wave = signal.overlap_add(spectrum, None if exists is None else _inner(exists, _NETWORK_REACH))
        return [
            row[: window.frames * signal.HOP].clamp(-1, 1).numpy().copy()
            for row, window in zip(wave, windows, strict=True)
        ]

    def _excitation(
        self, size: int, sources: list[HibariSource], starts: Tensor, lengths: Tensor, *, at_edge: bool
    ) -> Tensor:
        """The pulses' spectra, complex ``[B, size + 3, 601]``, of a window and the frames that overlap it."""
        firsts = starts - signal.BEFORE - signal.REACH
        count = size + signal.BEFORE + signal.AFTER + 2 * signal.REACH - 1
        # One frame more on each side, to interpolate; beyond its ends f0 stays as it is there.
        frame = (firsts[:, None] + torch.arange(-1, count + 1)).clamp_(min=0).minimum(lengths[:, None] - 1)
        f0 = torch.stack([source.f0[row] for source, row in zip(sources, frame, strict=True)])
        phase = torch.stack([source.phase[row[1:-1]] for source, row in zip(sources, frame, strict=True)])
        wave = signal.pulses(f0, phase)
        return signal.spectra(signal.reflected(wave, firsts, lengths) if at_edge else wave)

    def _z(self, size: int, sources: list[HibariSource], starts: Tensor) -> Tensor | None:
        """The noise of the same frames, ``[B, 2, size + 3, 601]``."""
        if not self._noise:
            return None
        count = size + signal.BEFORE + signal.AFTER
        z = torch.stack(
            [
                signal.noise(source.noise_key, start - signal.BEFORE, count)
                for source, start in zip(sources, starts.tolist(), strict=True)
            ]
        )
        z[:, 0] *= self._noise
        return z


class HibariVocoderNet(nn.Module):
    """The network: conditioning -> the five parts of each frame's spectrum."""

    def __init__(self) -> None:
        super().__init__()
        self.dec_in = nn.Conv1d(_FEATURES, _CHANNELS, _TAPS)
        self.dec = nn.ModuleList(ConvNeXtBlock(_CHANNELS, 768, _TAPS, padded=False) for _ in range(_BLOCKS))
        self.dec_norm = nn.LayerNorm(_CHANNELS)
        self.head = nn.Linear(_CHANNELS, 5 * signal.BINS)

    def forward(self, cond: Tensor, exists: Tensor | None) -> Tensor:
        """``[B, n + 54, 130]`` -> ``[B, n, 3005]``: each layer is as long as the next one needs it.

        Args:
            exists: ``[B, n + 54]``, 0 beyond the utterance's ends; None if all of it exists.
        """
        x = nn.functional.linear(cond.unfold(1, _TAPS, 1).flatten(2), self.dec_in.weight.flatten(1), self.dec_in.bias)
        trimmed = _TAPS // 2
        if exists is not None:
            exists = exists.unsqueeze(2)
            x *= _inner(exists, trimmed)
        for block in self.dec:
            trimmed += _TAPS // 2
            x = block(x, None if exists is None else _inner(exists, trimmed))
        out: Tensor = self.head(self.dec_norm(x))
        return out


def _inner(x: Tensor, trimmed: int) -> Tensor:
    """``[B, T, …]`` without its first and last frames."""
    return x[:, trimmed : x.shape[1] - trimmed]


def _checked(window: Window, size: int) -> HibariSource:
    source = window.source
    if not isinstance(source, HibariSource):
        raise TypeError(f"{type(source).__name__} is no source of hibari's vocoder")
    if window.size != size or not 0 < window.frames <= size:
        raise ValueError(f"a window of {window.frames} frames in a shape of {window.size}, in a batch of {size}")
    if window.start < 0 or window.start + window.frames > source.frames:
        raise ValueError(f"window [{window.start}, +{window.frames}) of {source.frames} frames")
    return source
