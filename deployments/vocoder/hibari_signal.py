"""The signal processing around hibari's vocoder network: pulses, noise, and the transforms to and from
spectra.

After hibari-tts 0.2.1's `dsp` module (Apache-2.0), rewritten so that any window of an utterance can be made
without the rest of it: the pulses start from a known phase, and noise is drawn by position. B windows, F
frames of 300 samples at 24 kHz; spectra have 601 bins.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

SAMPLE_RATE = 24000
HOP = 300
FFT = 1200
BINS = FFT // 2 + 1
BEFORE, AFTER = 1, 2
"""A frame's samples are made of its own spectrum, one before it, and two after it."""
REACH = 2
"""A spectrum is taken from two frames on each side of its centre, where its own frame begins."""

_VOICED_HZ = 40.0
_HIGHEST_HARMONIC_HZ = 11000.0
_PHASE_CHUNK = 512
_FULL_OVERLAP = 1.5
"""Sum of the four squared Hann windows that overlap at any sample inside an utterance."""
_DRAWS = 4 * -(-BINS // 4)
"""64-bit draws per frame: one a bin, in whole steps of Philox's counter, which yields four."""

_HANN = torch.hann_window(FFT, periodic=True)
_ANALYSIS = _HANN / HOP
_SYNTHESIS = _HANN / _FULL_OVERLAP
_OVERLAP = (_HANN * _SYNTHESIS).view(FFT // HOP, HOP)
_FROM_CENTRE = ((torch.arange(HOP) + 0.5) / HOP - 0.5) % 1.0


def phases(f0: Tensor) -> Tensor:
    """The pulse source's phase at each frame's start, in cycles, float64 ``[F]``, of f0 ``[F]`` in Hz.

    A running sum over every sample before it, in float64, a few frames at a time.
    """
    around = with_neighbours(f0)
    sums = [
        _frequency(around[at : at + _PHASE_CHUNK + 2]).clamp_(min=_VOICED_HZ).sum(1, dtype=torch.float64)
        for at in range(0, len(f0), _PHASE_CHUNK)
    ]
    cycles = torch.cat(sums) / SAMPLE_RATE
    return (cycles.cumsum(0) - cycles) % 1.0


def with_neighbours(f0: Tensor) -> Tensor:
    """``[F]`` -> ``[F + 2]``: the ends repeated, which is how f0 goes on beyond them."""
    return torch.cat([f0[:1], f0, f0[-1:]])


def pulses(f0: Tensor, phase: Tensor) -> Tensor:
    """Band-limited pulses: every harmonic below 11 kHz at unit amplitude, silence where unvoiced.

    Σ cos(h·t) for h = 1…H is sin((H + ½)t) / (2 sin(t/2)) - ½.

    Args:
        f0: ``[B, n + 2]`` in Hz, with a frame before and after.
        phase: ``[B, n]`` at each frame's start, in cycles, float64.

    Returns:
        ``[B, n * 300]``.
    """
    hertz = _frequency(f0)
    voiced = hertz > _VOICED_HZ
    hertz.clamp_(min=_VOICED_HZ)
    cycles = hertz.cumsum(2, dtype=torch.float64).div_(SAMPLE_RATE).add_(phase.unsqueeze(2))
    angle = cycles.frac_().mul_(2 * math.pi).float()
    harmonics = torch.div(_HIGHEST_HARMONIC_HZ, hertz).floor_().add_(0.5)
    denominator = torch.sin(angle * 0.5).mul_(2)
    at_pulse = denominator.abs() <= 2e-3  # there the quotient nears 0/0, whose limit is H + ½
    wave = torch.sin(angle.mul_(harmonics)).div_(denominator.masked_fill_(at_pulse, 1.0))
    wave = torch.where(at_pulse, harmonics, wave).sub_(0.5).mul_(voiced)
    return wave.flatten(1)


def _frequency(f0: Tensor) -> Tensor:
    """``[…, n + 2]`` at the frames' centres -> ``[…, n, 300]`` at each sample of the inner n, in a line."""
    before, here, after = f0[..., :-2, None], f0[..., 1:-1, None], f0[..., 2:, None]
    half = HOP // 2
    rising = torch.lerp(before, here, _FROM_CENTRE[:half])
    return torch.cat([rising, torch.lerp(here, after, _FROM_CENTRE[half:])], dim=-1)


def reflected(wave: Tensor, starts: Tensor, frames: Tensor) -> Tensor:
    """Samples beyond an utterance's ends, replaced by their mirror images within it.

    Args:
        wave: ``[B, n]`` samples.
        starts: int64 ``[B]``, the frame at which each row begins, before the utterance if negative.
        frames: int64 ``[B]``, length of each row's utterance.
    """
    first, last = starts[:, None] * HOP, frames[:, None] * HOP - 1
    sample = (first + torch.arange(wave.shape[1])).abs_()
    sample = last - (last - sample).abs_()
    return wave.gather(1, (sample - first).clamp_(0, wave.shape[1] - 1))


def spectra(wave: Tensor) -> Tensor:
    """Short-time spectra, complex ``[B, n, 601]``, of samples ``[B, (n + 3) * 300]``: frame i from the 1200
    samples that begin at i * 300. A unit cosine gives a magnitude of one."""
    pieces: Tensor = wave.unfold(1, FFT, HOP)
    spectrum: Tensor = torch.fft.rfft(pieces * _ANALYSIS)
    return spectrum


def overlap_add(spectrum: Tensor, exists: Tensor | None) -> Tensor:
    """The waveform ``[B, (n - 3) * 300]`` of complex ``[B, n, 601]``, as of the second frame; as
    ``torch.istft(center=True)``, normalised by the windows that overlap at each sample.

    Args:
        exists: ``[B, n]``, 0 for frames beyond the utterance's ends, which take no part; None if all exist.
    """
    if exists is not None:
        spectrum = spectrum * exists.unsqueeze(2)
    pieces = torch.fft.irfft(spectrum, FFT).mul_(_SYNTHESIS)
    wave = _added(pieces.view(*pieces.shape[:2], FFT // HOP, HOP))
    if exists is not None:
        wave /= _added(exists[:, :, None, None] * _OVERLAP).clamp_(min=1e-11)
    return wave.flatten(1)


def _added(pieces: Tensor) -> Tensor:
    """``[B, n, 4, 300]``, each frame's four hops -> ``[B, n - 3, 300]``, summed where they overlap."""
    count = pieces.shape[1] - BEFORE - AFTER
    total = pieces[:, 3 : 3 + count, 0] + pieces[:, 2 : 2 + count, 1]
    total += pieces[:, 1 : 1 + count, 2]
    total += pieces[:, :count, 3]
    return total


def noise(key: tuple[int, int], first_frame: int, frames: int) -> Tensor:
    """Complex normal numbers z, drawn by position: a frame's are the same in any window, batch or process.

    From Philox, a counter-based generator (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3",
    2011): the key is the utterance's, the counter the frame's; by the Box-Muller transform.

    Args:
        first_frame: at least -1, since a window at the utterance's start asks for the frame before it.

    Returns:
        ``[2, frames, 601]``: |z|, whose square has the mean 2, and z's angle in radians.
    """
    words = np.array([part % 2**64 for part in key], np.uint64)
    bits = np.random.Philox(key=words, counter=(first_frame + 1) * _DRAWS // 4).random_raw(frames * _DRAWS)
    pairs = torch.from_numpy(bits.view(np.int32)).view(frames, _DRAWS, 2)[:, :BINS]
    uniform = pairs.permute(2, 0, 1).to(torch.float32, memory_format=torch.contiguous_format).mul_(2.0**-32)
    # From [-½, ½] to (0, 1]; the least number above 0 keeps the logarithm finite.
    uniform[0].add_(0.5).clamp_(min=2.0**-33).log_().mul_(-2).sqrt_()
    uniform[1].mul_(2 * math.pi)
    return uniform


def spectrum_of(parts: Tensor, excitation: Tensor, z: Tensor | None) -> Tensor:
    """What the network says about each frame, made into its spectrum:
    ``e^lh · e^(iπ tanh θ) · excitation + e^lr · e^(iφ) + e^ln · z``, with z complex normal.

    Args:
        parts: ``[B, n, 5 * 601]``: lh, θ, ln, lr and φ.
        excitation: the pulses' spectrum, complex ``[B, n, 601]``.
        z: ``[B, 2, n, 601]``, |z| and its angle, from :func:`noise`; None for no noise.

    Returns:
        Complex ``[B, n, 601]``.
    """
    log_harmonic, theta, log_noise, log_free, phi = parts.view(*parts.shape[:2], 5, BINS).unbind(2)
    harmonic = torch.complex(*_polar(_magnitude(log_harmonic), torch.tanh(theta).mul_(math.pi)))
    real, imaginary = _polar(_magnitude(log_free), phi)
    if z is not None:
        noise_real, noise_imaginary = _polar(_magnitude(log_noise).mul_(z[:, 0]), z[:, 1])
        real += noise_real
        imaginary += noise_imaginary
    return harmonic.mul_(excitation).add_(torch.complex(real, imaginary))


def _magnitude(log: Tensor) -> Tensor:
    return log.clamp(max=7.0).exp_()


def _polar(magnitude: Tensor, angle: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary parts; `torch.polar` takes four times as long."""
    return torch.cos(angle).mul_(magnitude), torch.sin(angle).mul_(magnitude)
