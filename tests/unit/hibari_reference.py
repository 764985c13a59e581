"""hibari's own runtime, with the rounding of activations taken out.

The package's graph quantises activations as it runs, to 8 bits and with one scale for a whole tensor, which
alone moves its spectra by several tenths and its durations by a frame here and there. Ours computes in
float32 on the same weights; so does this.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from deployments.contracts import Float32


class NoNoise:
    """A generator that draws zeros."""

    def standard_normal(self, size: tuple[int, ...], dtype: type) -> Float32:
        return np.zeros(size, dtype)


def package_file() -> Path:
    spec = importlib.util.find_spec("hibari")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "assets" / "hibari.onnx"


def float_graph(path: Path) -> bytes:
    """The package's graph without the rounding of activations: int8 products become float32 ones."""
    model = onnx.load(path)
    tensors = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    model.graph.initializer.append(numpy_helper.from_array(np.float32(1), "one"))
    nodes, seen = [], set()
    for node in model.graph.node:
        if node.op_type == "DynamicQuantizeLinear":
            nodes.append(helper.make_node("Identity", [node.input[0]], [node.output[0]]))
            nodes.append(helper.make_node("Identity", ["one"], [node.output[1]]))
        elif node.op_type == "MatMulInteger":
            weight = tensors[node.input[1]].astype(np.float32) - tensors[node.input[3]].astype(np.float32)
            name = node.input[1] + "_float"
            if name not in seen:  # looped layers share theirs
                model.graph.initializer.append(numpy_helper.from_array(weight, name))
                seen.add(name)
            nodes.append(helper.make_node("MatMul", [node.input[0], name], node.output))
        else:
            nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model.SerializeToString()  # type: ignore[no-any-return]


def run(session: Any, ids: tuple[int, ...], speed: float = 1.0) -> list[Float32]:
    feeds = {"ids": np.asarray([ids], np.int64), "speed": np.asarray([speed], np.float32)}
    return [out[0] for out in session.run(None, feeds)]


def float_session() -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(float_graph(package_file()), options)
