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
    return _state(path or _package_file(), _acoustic_name, _acoustic_matrices())


def vocoder_state(path: Path | None = None) -> dict[str, Float32]:
    """Weights of :class:`deployments.vocoder.hibari.HibariVocoderNet`; see :func:`acoustic_state`."""
    return _state(path or _package_file(), _vocoder_name, _vocoder_matrices())


def _package_file() -> Path:
    # find_spec does not run the package, which would pull its runtime and its text frontend.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise WeightsError("the package hibari-tts, which holds this voice's weights, is not installed")
    return Path(spec.submodule_search_locations[0]) / "assets" / "hibari.onnx"


def _acoustic_name(stored: str) -> str | None:
    """Our name of a float32 tensor of the acoustic network; None for one of the vocoder's."""
    for theirs, ours in (("m.text.", "content."), ("pn.", "prosody.")):
        if stored.startswith(theirs):
            return ours + stored.removeprefix(theirs)
    return None


def _vocoder_name(stored: str) -> str | None:
    if stored.startswith("m.") and not stored.startswith("m.text."):
        return stored.removeprefix("m.")
    return None


def _acoustic_matrices() -> dict[str, str]:
    """Node name of an int8 matrix -> our name."""
    names = {}
    # The exporter numbered repeated node names: the second encoder's convolutions got _1; of the looped
    # transformer layer only the first pass holds the weights, and four passes of the first encoder precede.
    encoders = (
        ("content.", "", "", "/Transpose_2_output_0"),
        ("prosody.text.", "_1", "_4", "/Transpose_25_output_0"),
    )
    for ours, conv_suffix, linear_suffix, in_proj in encoders:
        for i in range(2):
            for w in ("pw1", "pw2"):
                names[f"/convs.{i}/{w}{conv_suffix}/Transpose_output_0"] = f"{ours}convs.{i}.{w}.weight"
        names[in_proj] = f"{ours}attn.self_attn.in_proj_weight"
        names[f"/out_proj{linear_suffix}/Transpose_output_0"] = f"{ours}attn.self_attn.out_proj.weight"
        for w in ("linear1", "linear2"):
            names[f"/{w}{linear_suffix}/Transpose_output_0"] = f"{ours}attn.{w}.weight"
    for i in range(6):
        for w in ("pw1", "pw2"):
            names[f"/pro.{i}/{w}/Transpose_output_0"] = f"prosody.pro.{i}.{w}.weight"
    return names


def _vocoder_matrices() -> dict[str, str]:
    names = {"/head/Transpose_output_0": "head.weight"}
    for i in range(8):
        for w in ("pw1", "pw2"):
            names[f"/dec.{i}/{w}/Transpose_output_0"] = f"dec.{i}.{w}.weight"
    return names


def _state(path: Path, name_of: type[_acoustic_name] | object, matrices: dict[str, str]) -> dict[str, Float32]:
    raise NotImplementedError
