"""Strict loading: every tensor of hibari's file is used exactly once, and what is wrong is named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from deployments import hibari_weights
from deployments.acoustic.hibari import HibariAcousticNet
from deployments.hibari_blocks import frozen
from deployments.hibari_weights import WeightsError, acoustic_state, vocoder_state
from deployments.onnx_tensors import initialisers
from deployments.vocoder.hibari import HibariVocoderNet

HEAD = "/head/Transpose_output_0"
Edited = Callable[[Callable[[Any], None]], Path]


@pytest.fixture
def edited(tmp_path: Path) -> Edited:
    """The package's file with its initialisers changed."""

    def make(change: Callable[[Any], None]) -> Path:
        model = onnx.load(hibari_weights._package_file())
        del model.graph.node[:]
        change(model.graph.initializer)
        path = tmp_path / "edited.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    return make


def position(tensors: Any, name: str) -> int:
    return next(i for i, tensor in enumerate(tensors) if tensor.name == name)


def test_every_tensor_is_read_as_onnx_reads_it() -> None:
    path = hibari_weights._package_file()
    expected = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    read = {tensor.name: tensor.array() for tensor in initialisers(memoryview(path.read_bytes()))}
    assert read.keys() == expected.keys()
    for name, array in expected.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8", "int32", "int64"])
@pytest.mark.parametrize("raw", [True, False])
def test_types_and_both_ways_of_storing(dtype: str, raw: bool) -> None:
    values = np.array([[0, 1, 100], [7, 127, 3]], dtype)
    if dtype.startswith(("int", "float")):
        values[0, 2] = -100
    if raw:
        tensor = numpy_helper.from_array(values, "t")
    else:
        kind = onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
        tensor = onnx.helper.make_tensor("t", kind, values.shape, values.ravel().tolist())
    model = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], [tensor]))
    (read,) = initialisers(memoryview(model.SerializeToString()))
    assert read.array().dtype == values.dtype
    np.testing.assert_array_equal(read.array(), values)


def test_a_file_cut_short_is_refused() -> None:
    data = hibari_weights._package_file().read_bytes()
    with pytest.raises(ValueError, match="ends within"):
        list(initialisers(memoryview(data)[:-1000]))


def test_matrices_are_dequantised() -> None:
    tensors = {t.name: numpy_helper.to_array(t) for t in onnx.load(hibari_weights._package_file()).graph.initializer}
    expected = tensors[HEAD + "_quantized"].T * tensors[HEAD + "_scale"]
    state = vocoder_state()
    np.testing.assert_array_equal(state["head.weight"], expected)
    assert all(array.dtype == np.float32 and array.flags.c_contiguous for array in state.values())


@pytest.mark.parametrize("name", [f"{HEAD}_quantized", f"{HEAD}_scale", f"{HEAD}_zero_point"])
def test_a_missing_part_of_a_matrix_is_named(edited: Edited, name: str) -> None:
    path = edited(lambda tensors: tensors.pop(position(tensors, name)))
    with pytest.raises(WeightsError, match=name):
        vocoder_state(path)
    acoustic_state(path)  # not its concern


@pytest.mark.parametrize("name", ["decoder.extra", "/extra/Transpose_output_0_quantized"])
def test_a_tensor_of_no_network_is_named(edited: Edited, name: str) -> None:
    path = edited(lambda tensors: tensors.append(numpy_helper.from_array(np.zeros(3, np.float32), name)))
    for read in (acoustic_state, vocoder_state):
        with pytest.raises(WeightsError, match=name):
            read(path)


@pytest.mark.parametrize("name", ["m.head.bias", f"{HEAD}_scale"])
def test_a_tensor_that_is_there_twice_is_named(edited: Edited, name: str) -> None:
    path = edited(lambda tensors: tensors.append(tensors[position(tensors, name)]))
    with pytest.raises(WeightsError, match=f"{name}.*twice"):
        vocoder_state(path)


def test_a_tensor_of_another_type_is_named(edited: Edited) -> None:
    def change(tensors: Any) -> None:
        at = position(tensors, "m.head.bias")
        tensors[at].CopyFrom(numpy_helper.from_array(np.zeros(3005, np.int32), "m.head.bias"))

    with pytest.raises(WeightsError, match=r"m\.head\.bias.*int32"):
        vocoder_state(edited(change))


@pytest.mark.parametrize(
    ("network", "read", "name"),
    [
        (HibariVocoderNet, vocoder_state, "dec.3.gamma"),
        (HibariVocoderNet, vocoder_state, "head.weight"),
        (HibariAcousticNet, acoustic_state, "prosody.dur.2.weight"),
        (HibariAcousticNet, acoustic_state, "content.attn.self_attn.in_proj_weight"),
    ],
)
def test_a_network_takes_exactly_its_tensors(network: Any, read: Any, name: str) -> None:
    state = read()
    frozen(network, state)
    with pytest.raises(RuntimeError, match=r"extra\.weight"):
        frozen(network, {**state, "extra.weight": state[name]})
    with pytest.raises(RuntimeError, match=name):
        frozen(network, {**state, name: state[name][:-1]})
    del state[name]
    with pytest.raises(RuntimeError, match=name):
        frozen(network, state)


def test_both_networks_use_the_whole_file() -> None:
    stored = [t.name for t in initialisers(memoryview(hibari_weights._package_file().read_bytes()))]
    matrices = sum(name.endswith("_quantized") for name in stored)
    floats = len(stored) - 3 * matrices
    assert len(acoustic_state()) + len(vocoder_state()) == matrices + floats


def test_an_absent_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hibari_weights, "_PACKAGE", "no_such_package_here")
    with pytest.raises(WeightsError, match="hibari-tts"):
        acoustic_state()


@pytest.mark.parametrize(
    "loaded", ["deployments.acoustic.hibari:HibariAcoustic", "deployments.vocoder.hibari:HibariVocoder"]
)
def test_loading_pulls_in_nothing_heavy(loaded: str) -> None:
    module, name = loaded.split(":")
    code = (
        f"import sys; from {module} import {name}; {name}(); "
        "print([m for m in ('onnx', 'onnxruntime', 'hibari', 'ray', 'sympy', 'torch._dynamo') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
