"""hibari's weights, read from the installed `hibari-tts` package (Apache-2.0): the one place that knows
how they are stored.

The package holds one ONNX graph, with the larger matrices as int8 (one scale each) under the names of
the graph's nodes and everything else as float32 under the names of its author's modules. Here both become
float32 under the names of *our* modules. Every tensor of the file must be claimed by exactly one of the
two networks; :func:`deployments.hibari_blocks.frozen` then checks the same of every name and shape of a
network. No torch is needed here.
"""

from __future__ import annotations

import importlib.util
import mmap
import re
from pathlib import Path

import numpy as np

from deployments.contracts import Float32
from deployments.onnx_tensors import OnnxTensor, initialisers

_PACKAGE = "hibari"
_QUANTISED = re.compile(r"(?P<node>.+)_(?P<part>quantized|scale|zero_point)")


class WeightsError(Exception):
    """The weights are not what the networks need; the message names the tensor."""


def acoustic_state(path: Path | None = None) -> dict[str, Float32]:
    """Weights of :class:`deployments.acoustic.hibari.HibariAcousticNet`, by parameter name.

    Args:
        path: the ONNX file; the installed package's own when not given.

    Raises:
        WeightsError: the package or a tensor is missing, left over, or not as expected.
    """
    return _state("acoustic", path or _package_file())


def vocoder_state(path: Path | None = None) -> dict[str, Float32]:
    """Weights of :class:`deployments.vocoder.hibari.HibariVocoderNet`; see :func:`acoustic_state`."""
    return _state("vocoder", path or _package_file())


def _package_file() -> Path:
    # find_spec does not run the package, which would pull its runtime and its text frontend.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise WeightsError("the package hibari-tts, which holds this voice's weights, is not installed")
    return Path(spec.submodule_search_locations[0]) / "assets" / "hibari.onnx"


def _state(network: str, path: Path) -> dict[str, Float32]:
    matrices = _matrix_names()
    state: dict[str, Float32] = {}
    parts: dict[str, dict[str, OnnxTensor]] = {}
    with path.open("rb") as file:
        # Closed by its last view: only pages of the tensors wanted here are ever read.
        model = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    for tensor in initialisers(model):
        quantised = _QUANTISED.fullmatch(tensor.name)
        owner, name = matrices.get(quantised["node"], _UNKNOWN) if quantised else _float_name(tensor.name)
        if not owner:
            raise WeightsError(f"tensor {tensor.name!r} of {path} belongs to no network")
        if owner != network:
            continue
        if quantised:
            stored = parts.setdefault(name, {})
            if quantised["part"] in stored:
                raise WeightsError(f"tensor {tensor.name!r} of {path} is there twice")
            stored[quantised["part"]] = tensor
        elif name in state:
            raise WeightsError(f"tensor {tensor.name!r} of {path} is there twice")
        else:
            state[name] = _laid_out(name, _float32(tensor))
    for node, (owner, name) in matrices.items():
        if owner == network:
            state[name] = _dequantised(node, parts.get(name, {}))
    return state


_UNKNOWN = ("", "")


def _float_name(stored: str) -> tuple[str, str]:
    """(network, our name) of a float32 tensor."""
    for theirs, network, ours in (
        ("m.text.", "acoustic", "content."),
        ("m.", "vocoder", ""),
        ("pn.", "acoustic", "prosody."),
    ):
        if stored.startswith(theirs):
            return network, ours + stored.removeprefix(theirs)
    return _UNKNOWN


def _matrix_names() -> dict[str, tuple[str, str]]:
    """Node of an int8 matrix -> (network, our name)."""
    names = {"/head/Transpose_output_0": ("vocoder", "head.weight")}
    # The exporter numbered repeated nodes. Of a looped transformer layer, the first pass holds the weights;
    # the first encoder's four passes precede the second's.
    for encoder, convs, linears, in_proj in (
        ("content", "", "", "/Transpose_2_output_0"),
        ("prosody.text", "_1", "_4", "/Transpose_25_output_0"),
    ):
        attn = f"{encoder}.attn"
        names[in_proj] = ("acoustic", f"{attn}.self_attn.in_proj_weight")
        names[f"/out_proj{linears}/Transpose_output_0"] = ("acoustic", f"{attn}.self_attn.out_proj.weight")
        for w in ("linear1", "linear2"):
            names[f"/{w}{linears}/Transpose_output_0"] = ("acoustic", f"{attn}.{w}.weight")
        for i in range(2):
            for w in ("pw1", "pw2"):
                names[f"/convs.{i}/{w}{convs}/Transpose_output_0"] = ("acoustic", f"{encoder}.convs.{i}.{w}.weight")
    for stack, count, network, ours in (("pro", 6, "acoustic", "prosody.pro"), ("dec", 8, "vocoder", "dec")):
        for i in range(count):
            for w in ("pw1", "pw2"):
                names[f"/{stack}.{i}/{w}/Transpose_output_0"] = (network, f"{ours}.{i}.{w}.weight")
    return names


def _float32(tensor: OnnxTensor) -> Float32:
    array = tensor.array()
    if array.dtype != np.float32:
        raise WeightsError(f"tensor {tensor.name!r} is {array.dtype}, not float32")
    return array


def _dequantised(node: str, parts: dict[str, OnnxTensor]) -> Float32:
    """An int8 matrix ``[in, out]`` with one scale -> float32 ``[out, in]``."""
    arrays = {}
    for part in ("quantized", "scale", "zero_point"):
        if part not in parts:
            raise WeightsError(f"tensor {node + '_' + part!r} is missing")
        arrays[part] = parts[part].array()
    quantised, scale, zero_point = arrays["quantized"], arrays["scale"], arrays["zero_point"]
    if quantised.dtype != np.int8 or quantised.ndim != 2:
        raise WeightsError(f"tensor {node + '_quantized'!r} is {quantised.dtype}{quantised.shape}, no int8 matrix")
    if scale.size != 1 or zero_point.size != 1:
        raise WeightsError(f"tensor {node + '_scale'!r} is not one scale for the whole matrix")
    matrix = np.ascontiguousarray(quantised.T).astype(np.float32)
    matrix -= np.float32(zero_point.item())
    matrix *= np.float32(scale.item())
    return matrix


def _laid_out(name: str, array: Float32) -> Float32:
    """Convolution kernels in the layout in which the networks multiply with them."""
    if name.endswith(".dw.weight"):  # depthwise, [C, 1, k] -> taps first, [k, C]
        return np.ascontiguousarray(array[:, 0].T)
    if array.ndim == 3 and array.shape[2] == 1:  # a convolution of one tap is a matrix
        return array[:, :, 0]
    return array
