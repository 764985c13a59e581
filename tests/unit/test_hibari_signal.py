"""hibari's pulses and noise, each made in parts, against the whole."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from hibari import dsp

from deployments.vocoder import hibari_signal

HOP = 300


def test_pulses_in_windows_are_the_packages_pulses() -> None:
    time_s = np.arange(1500) / 80
    f0 = (180 + 120 * np.sin(2 * np.pi * 0.7 * time_s)).astype(np.float32)
    f0[300:420] = -5  # unvoiced; the curve may go below zero there
    expected = dsp.pulses(f0)
    assert expected.max() > 150  # a pulse is as high as it has harmonics
    curve = torch.from_numpy(f0)
    phase, around = hibari_signal.phases(curve), hibari_signal.with_neighbours(curve)
    for start in range(0, 1500, 100):
        wave = hibari_signal.pulses(around[None, start : start + 102], phase[None, start : start + 100])
        np.testing.assert_allclose(wave[0], expected[start * HOP : (start + 100) * HOP], atol=0.1, rtol=0)


def test_noise_is_drawn_by_position() -> None:
    z = hibari_signal.noise((5, 9), -1, 60)
    for first, count in ((-1, 1), (0, 7), (13, 40)):
        assert torch.equal(hibari_signal.noise((5, 9), first, count), z[:, first + 1 : first + 1 + count])
    for other in ((5, 10), (6, 9), (-5, 9)):
        assert not torch.equal(hibari_signal.noise(other, -1, 60), z)
    assert all(not torch.equal(a, b) for a, b in pairwise(z[0]))


def test_noise_is_complex_normal() -> None:
    z = torch.polar(*hibari_signal.noise((5, 9), 0, 400))
    parts = torch.view_as_real(z).flatten(0, 1).double()
    assert parts.mean(0).abs().max() < 0.01
    np.testing.assert_allclose(parts.T.cov(), np.eye(2), atol=0.015)
    np.testing.assert_allclose((parts**4).mean(0), 3, atol=0.1)
    for a, b in ((z[1:], z[:-1]), (z[:, 1:], z[:, :-1])):  # neither frames nor bins go together
        assert ((a * b.conj()).mean().abs() / 2) < 0.015


def test_magnitudes_are_bounded() -> None:
    parts = torch.full((1, 2, 5, 601), -50.0)  # silent, but for the harmonic part
    parts[:, :, 0], parts[:, :, 1] = 9.0, 0.0
    spectrum = hibari_signal.spectrum_of(parts.flatten(2), torch.ones(1, 2, 601, dtype=torch.complex64), None)
    np.testing.assert_allclose(spectrum, np.exp(7.0), rtol=1e-5)
