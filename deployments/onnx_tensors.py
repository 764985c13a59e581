"""The tensors of an ONNX file, read without the `onnx` package.

A voice's weights may come as ONNX, but its networks run in torch; all that is wanted of the file is its
arrays. Importing `onnx` would keep about 13 MB in the process for good, and parsing the file with it copies
every tensor. The protobuf wire format is simple enough to be walked in place, over a memory map.

Field numbers: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto (ModelProto, GraphProto, TensorProto);
wire format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

_GRAPH, _INITIALISER = 7, 5
_DIMS, _DATA_TYPE, _FLOAT_DATA, _INT32_DATA, _INT64_DATA, _NAME, _RAW_DATA = 1, 2, 4, 5, 7, 8, 9
_DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<f4"), 2: np.dtype("u1"), 3: np.dtype("i1"), 6: np.dtype("<i4"), 7: np.dtype("<i8"),
}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class OnnxTensor:
    """One tensor of the file; it points into the file's buffer until :meth:`array` is called."""

    name: str
    dims: tuple[int, ...]
    data_type: int
    _raw: memoryview | None = field(repr=False)
    _values: tuple[float, ...] = field(repr=False)

    def array(self) -> NDArray[Any]:
        """The values, in memory of their own.

        Raises:
            ValueError: the tensor's type is none of float32, uint8, int8, int32, int64, or its size does not
                fit its shape.
        """
        dtype = _DTYPES.get(self.data_type)
        if dtype is None:
            raise ValueError(f"tensor {self.name!r} has the unsupported ONNX data type {self.data_type}")
        flat: NDArray[Any]
        flat = np.array(self._values, dtype) if self._raw is None else np.frombuffer(self._raw, dtype).copy()
        if flat.size != math.prod(self.dims):
            raise ValueError(f"tensor {self.name!r} holds {flat.size} values for the shape {self.dims}")
        return flat.reshape(self.dims)


def initialisers(model: memoryview) -> Iterator[OnnxTensor]:
    """The initialisers of a serialised ``ModelProto``, in file order; nothing is copied yet.

    Raises:
        ValueError: the bytes are not a protobuf message.
    """
    for number, graph in _fields(model):
        if number == _GRAPH and isinstance(graph, memoryview):
            for inner, message in _fields(graph):
                if inner == _INITIALISER and isinstance(message, memoryview):
                    yield _tensor(message)


def _tensor(message: memoryview) -> OnnxTensor:
    name, data_type, raw = "", 0, None
    dims: list[int] = []
    values: list[float] = []
    for number, value in _fields(message):
        if number == _DIMS:
            dims += _integers(value)
        elif number == _DATA_TYPE and isinstance(value, int):
            data_type = value
        elif number in (_INT32_DATA, _INT64_DATA):
            values += _integers(value)
        elif isinstance(value, memoryview):
            if number == _NAME:
                name = bytes(value).decode()
            elif number == _RAW_DATA:
                raw = value
            elif number == _FLOAT_DATA:
                values += np.frombuffer(value, "<f4").tolist()
    return OnnxTensor(name, tuple(dims), data_type, raw, tuple(values))


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"not a protobuf message: wire type {kind} at byte {at}")
        if at + length > len(message):
            raise ValueError(f"the protobuf message ends within a field, at byte {at}")
        yield number, message[at : at + length]
        at += length


def _integers(value: int | memoryview) -> list[int]:
    """A repeated integer field's part: one value, or many packed."""
    if isinstance(value, int):
        return [_signed(value)]
    found, at = [], 0
    while at < len(value):
        one, at = _varint(value, at)
        found.append(_signed(one))
    return found


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """(value, where the next field begins)."""
    value = shift = 0
    while True:
        if at == len(message):
            raise ValueError("the protobuf message ends within a number")
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
