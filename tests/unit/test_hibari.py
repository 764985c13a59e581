"""hibari's networks against its own runtime, windows against the whole, batches against solo passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import hibari
import numpy as np
import pytest
import torch
from hibari import dsp

from deployments.acoustic.hibari import HibariAcoustic
from deployments.contracts import AcousticFeatures, AcousticNetwork, Float32, VocoderNetwork, Window
from deployments.vocoder.hibari import HibariVocoder
from tests.unit.hibari_reference import (
    HOP,
    NoNoise,
    float_session,
    item,
    joined,
    run,
    shortened,
    spectra,
    whole,
)

SENTENCES = [
    "No.",
    "Hello there, how are you today?",
    "The quick brown fox jumps over the lazy dog near the river bank.",
    "On the third of March, she sold nine hundred and forty-two sea shells, by the sea shore; nobody knew why!",
]
SIZES = (40, 80, 160, 320)
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Spoken:
    """What the reference makes of a sentence."""

    ids: tuple[int, ...]
    spectra: list[Float32]
    """lh, θ, ln, lr and φ, each ``[601, F]``."""
    f0: Float32
    wave: Float32


@pytest.fixture(scope="module")
def reference() -> Any:
    return float_session()


@pytest.fixture(scope="module")
def spoken(reference: Any) -> list[Spoken]:
    voice = hibari.Hibari()
    made = []
    for sentence in SENTENCES:
        ids = tuple(voice.ids(voice.phonemize(sentence)[0]))
        *spectra, f0 = run(reference, ids)
        made.append(Spoken(ids, spectra, f0, dsp.synth(*spectra, f0, NoNoise())))
    return made


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def acoustic() -> HibariAcoustic:
    network: AcousticNetwork = HibariAcoustic()
    assert isinstance(network, HibariAcoustic)
    return network


@pytest.fixture(scope="module")
def vocoder() -> HibariVocoder:
    network: VocoderNetwork = HibariVocoder()
    assert isinstance(network, HibariVocoder)
    return network


@pytest.fixture(scope="module")
def features(acoustic: HibariAcoustic, spoken: list[Spoken]) -> list[AcousticFeatures]:
    return [acoustic.forward(len(s.ids), [item(s.ids, start=i)])[0] for i, s in enumerate(spoken)]


# Parity with the package


def test_spectra_are_the_packages_own(
    spoken: list[Spoken], features: list[AcousticFeatures], vocoder: HibariVocoder
) -> None:
    for sentence, made in zip(spoken, features, strict=True):
        np.testing.assert_allclose(made.arrays["f0"], sentence.f0, atol=1e-3, rtol=0)
        for ours, theirs in zip(spectra(vocoder, made), sentence.spectra, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-3, rtol=0)


def test_sound_is_the_packages_own_where_voiced_speech_begins_and_ends(
    features: list[AcousticFeatures],
) -> None:
    quiet = HibariVocoder(noise=0.0)
    voiced = np.flatnonzero(features[2].arrays["f0"] > 60)
    for first, end in ((voiced[0], voiced[0] + 9), (voiced[-1] - 40, voiced[-1])):
        arrays = {name: np.ascontiguousarray(a[..., first:end]) for name, a in features[2].arrays.items()}
        made = AcousticFeatures(int(end - first), arrays)
        expected = dsp.synth(*spectra(quiet, made), made.arrays["f0"], NoNoise())
        np.testing.assert_allclose(joined(quiet, quiet.open(made), (20,)), expected, atol=1e-5, rtol=0)


def test_sound_is_the_packages_own(spoken: list[Spoken], features: list[AcousticFeatures]) -> None:
    quiet = HibariVocoder(noise=0.0)
    for sentence, made in zip(spoken, features, strict=True):
        assert np.abs(sentence.wave).max() > 0.1
        # Pulses jump where a harmonic enters, so that an f0 a ten-thousandth of a hertz off changes a few
        # samples by more than any rounding: the vocoder is held to the same f0 …
        given = AcousticFeatures(made.frames, {**made.arrays, "f0": sentence.f0})
        np.testing.assert_allclose(joined(quiet, quiet.open(given), SIZES), sentence.wave, atol=1e-4, rtol=0)
        # … and both stages together on the whole.
        error = joined(quiet, quiet.open(made), SIZES) - sentence.wave
        assert np.sqrt(np.mean(error**2)) < 2e-4
        assert np.quantile(np.abs(error), 0.999) < 1e-3


def test_the_packages_rounding_is_small(spoken: list[Spoken]) -> None:
    session = hibari.Hibari().sess
    compared = 0
    for sentence in spoken:
        rounded = run(session, sentence.ids)
        frames, rounded_frames = len(sentence.f0), len(rounded[-1])
        assert abs(rounded_frames - frames) <= 0.02 * frames
        if rounded_frames == frames:
            compared += 1
            assert np.abs(rounded[0] - sentence.spectra[0]).mean() < 0.1
            assert np.abs(rounded[-1] - sentence.f0).mean() < 1.0
    assert compared >= 2


# Windows and the whole


@pytest.mark.parametrize("sizes", [SIZES, (20,), (60, 100)])
def test_windows_joined_equal_the_whole(
    vocoder: HibariVocoder, features: list[AcousticFeatures], sizes: tuple[int, ...]
) -> None:
    for frames in (3, 4, 19, 20, 21, 28, 29, 39, 40, 41, 70, 97, 161, 323, 700):
        source = vocoder.open(shortened(features[2], frames))
        np.testing.assert_allclose(joined(vocoder, source, sizes), whole(vocoder, source), atol=TOLERANCE, rtol=0)


def test_the_context_holds_all_that_a_window_depends_on(features: list[AcousticFeatures]) -> None:
    # hibari's own kernels fade towards their ends, which would hide a frame that is missing there.
    far = HibariVocoder()
    blocks: Any = far._net.dec
    for block in blocks:
        block.dw.weight.zero_()[::6] = 1.0
        block.gamma.fill_(30.0)
    seen: list[torch.Tensor] = []
    far._net.register_forward_hook(lambda _net, _inputs, parts: seen.append(parts))
    source = far.open(features[2])
    whole(far, source)
    for start in (60, 100, 140):
        far.forward(20, [Window(source, start, 20, 20)])
        overlapping = seen[0][:, start : start + 20 + 3]  # the whole's begin a frame before the utterance
        np.testing.assert_allclose(seen[-1], overlapping, atol=2e-5, rtol=0)


def test_any_part_can_be_made_by_itself(vocoder: HibariVocoder, features: list[AcousticFeatures]) -> None:
    source = vocoder.open(features[2])
    expected = whole(vocoder, source)
    for start in (*range(7), 27, 28, 29, 100, *range(source.frames - 7, source.frames)):
        frames = min(5, source.frames - start)
        part = vocoder.forward(5, [Window(source, start, frames, 5)])[0]
        np.testing.assert_allclose(part, expected[start * HOP :][: frames * HOP], atol=TOLERANCE, rtol=0)


def test_joins_are_not_heard(vocoder: HibariVocoder, features: list[AcousticFeatures]) -> None:
    source = vocoder.open(features[3])
    jumps = np.abs(np.diff(joined(vocoder, source, (20,))))
    at_joins = jumps[20 * HOP - 1 :: 20 * HOP]
    elsewhere = np.delete(jumps, np.arange(20 * HOP - 1, len(jumps), 20 * HOP))
    assert at_joins.max() <= elsewhere.max()
    assert at_joins.mean() <= 2 * elsewhere.mean()


# Batches and solo passes


def test_features_do_not_depend_on_the_batch(
    acoustic: HibariAcoustic, spoken: list[Spoken], features: list[AcousticFeatures]
) -> None:
    longest = max(len(s.ids) for s in spoken)
    batch = [item(s.ids, start=i) for i, s in enumerate(spoken)]
    for padded in (longest, acoustic.max_symbols):
        made = acoustic.forward(padded, batch)
        assert [each.noise_key for each in made] == [(7, start) for start in range(len(spoken))]
        for alone, together in zip(features, made, strict=True):
            assert together.frames == alone.frames
            for name, array in alone.arrays.items():
                atol = 1e-2 if name == "f0" else TOLERANCE  # f0 is in Hz
                np.testing.assert_allclose(together.arrays[name], array, atol=atol, rtol=0)


def test_speed_is_the_items_own(acoustic: HibariAcoustic, spoken: list[Spoken], reference: Any) -> None:
    ids = spoken[2].ids
    batch = acoustic.forward(100, [item(ids, speed) for speed in (0.5, 1.0, 2.0)])
    for made, speed in zip(batch, (0.5, 1.0, 2.0), strict=True):
        f0 = run(reference, ids, speed)[-1]
        assert made.frames == len(f0)
        np.testing.assert_allclose(made.arrays["f0"], f0, atol=1e-2)
    assert batch[0].frames > 1.6 * batch[1].frames > 2.4 * batch[2].frames


def test_sound_does_not_depend_on_the_batch(vocoder: HibariVocoder, features: list[AcousticFeatures]) -> None:
    short, long = vocoder.open(features[0]), vocoder.open(features[3])
    windows = [
        Window(long, 200, 40, 40),
        Window(short, 0, 40, 40),
        Window(short, 40, short.frames - 40, 40),
        Window(long, 0, 40, 40),
        Window(long, 33, 7, 40),
    ]
    for window, together in zip(windows, vocoder.forward(40, windows), strict=True):
        np.testing.assert_allclose(together, vocoder.forward(40, [window])[0], atol=TOLERANCE, rtol=0)


def test_noise_follows_the_key_and_can_be_scaled(features: list[AcousticFeatures]) -> None:
    waves = []
    for noise, key in ((0.0, (1, 0)), (1.0, (1, 0)), (1.0, (2, 0)), (0.5, (1, 0))):
        network = HibariVocoder(noise)
        made = AcousticFeatures(features[1].frames, features[1].arrays, key)
        waves.append(whole(network, network.open(made)))
    none, one, other, half = waves
    assert np.abs(one - none).max() > 1e-3
    assert np.abs(one - other).max() > 1e-3
    np.testing.assert_allclose(half - none, (one - none) / 2, atol=1e-5)


# Manners


def test_what_is_handed_on_keeps_nothing_else_alive(
    acoustic: HibariAcoustic, vocoder: HibariVocoder, spoken: list[Spoken]
) -> None:
    for made in acoustic.forward(100, [item(spoken[1].ids), item(spoken[2].ids)]):
        assert made.arrays["cond"].shape == (130, made.frames)
        assert made.arrays["f0"].shape == (made.frames,)
        for array in made.arrays.values():
            assert array.flags.owndata
            assert array.flags.c_contiguous
            assert array.dtype == np.float32
            array.flags.writeable = False  # as it comes from the object store
        source = vocoder.open(made)
        assert not np.shares_memory(source.f0.numpy(), made.arrays["f0"])
        assert not np.shares_memory(source.cond.numpy(), made.arrays["cond"])
        sound = vocoder.forward(40, [Window(source, 0, 33, 40)])[0]
        assert sound.flags.owndata
        assert sound.dtype == np.float32
        assert len(sound) == 33 * HOP


def test_sound_stays_within_range(features: list[AcousticFeatures]) -> None:
    loud = HibariVocoder(noise=1e5)
    assert np.abs(whole(loud, loud.open(features[1]))).max() == 1.0


def test_warming_up_works(vocoder: HibariVocoder) -> None:
    assert np.isfinite(whole(vocoder, vocoder.open(vocoder.silence(40)))).all()


def test_nonsense_is_refused(
    acoustic: HibariAcoustic, vocoder: HibariVocoder, features: list[AcousticFeatures]
) -> None:
    with pytest.raises(ValueError, match=r"\[3\] symbols"):
        acoustic.forward(2, [item((0, 5, 0))])
    with pytest.raises(ValueError, match="positive"):
        acoustic.forward(3, [item((0, 5, 0), speed=0)])
    with pytest.raises(ValueError, match="no features"):
        vocoder.open(AcousticFeatures(5, features[0].arrays))
    source = vocoder.open(features[0])
    with pytest.raises(ValueError, match="shape"):
        vocoder.forward(40, [Window(source, 0, 20, 80)])
    with pytest.raises(ValueError, match="window"):
        vocoder.forward(40, [Window(source, source.frames - 1, 2, 40)])
    with pytest.raises(TypeError, match="source"):
        vocoder.forward(40, [Window(object(), 0, 2, 40)])
