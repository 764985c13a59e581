"""What hibari's tests share: its own runtime with the rounding of activations taken out, and speech made whole
and in windows.

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
import torch
from onnx import helper, numpy_helper

from deployments.contracts import AcousticFeatures, Float32, SpeechItem, Utterance, Window
from deployments.vocoder.hibari import HibariSource, HibariVocoder
from deployments.vocoder.windows import plan

HOP = 300


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


def item(ids: tuple[int, ...], speed: float = 1.0, start: int = 0) -> SpeechItem:
    return SpeechItem(Utterance(start, start + 1, "en-US", ids), "heart", speed, seed=7)


def whole(vocoder: HibariVocoder, source: HibariSource) -> Float32:
    """An utterance in one pass."""
    return vocoder.forward(source.frames, [Window(source, 0, source.frames, source.frames)])[0]


def joined(vocoder: HibariVocoder, source: HibariSource, sizes: tuple[int, ...]) -> Float32:
    windows = plan(source.frames, sizes, vocoder.context_frames, first_small=True)
    parts = [vocoder.forward(size, [Window(source, start, n, size)])[0] for start, n, size in windows]
    assert [len(part) for part in parts] == [n * HOP for _, n, _ in windows]
    return np.concatenate(parts)


def spectra(vocoder: HibariVocoder, made: AcousticFeatures) -> list[Float32]:
    """lh, θ, ln, lr and φ of an utterance, each ``[601, F]``."""
    reach, length = 27, made.frames + 2 * 27
    cond, exists = torch.zeros(1, length, 130), torch.zeros(1, length)
    cond[0, reach:-reach] = torch.from_numpy(made.arrays["cond"].T)
    exists[0, reach:-reach] = 1
    with torch.inference_mode():
        return [part.T.numpy().copy() for part in vocoder._net(cond, exists)[0].split(601, dim=-1)]


def shortened(features: AcousticFeatures, frames: int) -> AcousticFeatures:
    """Features cut, or repeated, to a length."""
    arrays = {
        name: np.ascontiguousarray(np.take(array, np.arange(frames) % features.frames, axis=-1))
        for name, array in features.arrays.items()
    }
    return AcousticFeatures(frames, arrays, features.noise_key)
