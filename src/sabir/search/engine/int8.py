"""Converts a model with int8 weights to int8 multiplication: half the CPU time per text. Pure.

The bundled model stores its weights as int8 and converts them to floats on loading (``Cast``, ``Mul`` by a scale per
column,
``MatMul``). Each of these products becomes one ``DynamicQuantizeMatMul``, which quantizes the other operand instead.
bench/retrieval.py measures the loss of quality: none that shows.

ONNX files are protocol buffers, of which little is needed here: https://protobuf.dev/programming-guides/encoding and
https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

_GRAPH, _OPSETS = 7, 8  # fields of a model
_NODE, _INITIALIZER = 1, 5  # of a graph
_INPUT, _OUTPUT, _OPERATOR, _DOMAIN = 1, 2, 4, 7  # of a node
_DIMS, _NAME = 1, 8  # of a tensor
_VARINT, _BYTES = 0, 2
_FIXED: Final = {1: 8, 5: 4}
_CONTRIB: Final = b"com.microsoft"
# Without these, a processor adds products of bytes in 16 bits, which overflow.
_DOT_PRODUCTS: Final = frozenset({"avx512_vnni", "avx_vnni", "asimddp"})


class _Field(msgspec.Struct, frozen=True):
    number: int
    wire: int
    value: bytes  # of a varint: as encoded

    def encoded(self) -> bytes:
        length = _varint(len(self.value)) if self.wire == _BYTES else b""
        return _varint(self.number << 3 | self.wire) + length + self.value


class _Node(msgspec.Struct, frozen=True):
    fields: tuple[_Field, ...]

    def named(self, number: int) -> list[bytes]:
        return [field.value for field in self.fields if field.number == number]

    @property
    def operator(self) -> bytes:
        return b"".join(self.named(_OPERATOR))


def is_fast_here() -> bool:
    """Whether this processor multiplies bytes exactly, and faster than floats."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return platform.machine() == "arm64"  # Apple's, all of which do
    return not _DOT_PRODUCTS.isdisjoint(text.split())


def multiplying_in_int8(model: bytes) -> tuple[bytes, int]:
    """The model with its products in int8, and how many there are: none, if it does not have the structure above.

    Raises:
        ValueError: this is not a model.
    """
    fields = list(_fields(model))
    count = 0
    for at, field in enumerate(fields):
        if field.number == _GRAPH:
            graph, count = _graph(list(_fields(field.value)))
            fields[at] = _Field(_GRAPH, _BYTES, graph)
    if not count:
        return model, 0
    fields.append(_Field(_OPSETS, _BYTES, _joined([_Field(1, _BYTES, _CONTRIB), _Field(2, _VARINT, b"\x01")])))
    return _joined(fields), count


def _graph(fields: list[_Field]) -> tuple[bytes, int]:
    nodes = {at: _Node(tuple(_fields(field.value))) for at, field in enumerate(fields) if field.number == _NODE}
    made_by = {output: node for node in nodes.values() for output in node.named(_OUTPUT)}
    scales: set[bytes] = set()
    count = 0
    for at, node in nodes.items():
        weights = _weights(node, made_by)
        if weights is not None:
            count += 1
            scales.add(weights[1])
            fields[at] = _Field(_NODE, _BYTES, _product(node, *weights))
    for at, field in enumerate(fields):
        if field.number == _INITIALIZER:
            fields[at] = _flat(field, scales)
    return _joined(fields), count


def _weights(node: _Node, made_by: dict[bytes, _Node]) -> tuple[bytes, bytes] | None:
    """The int8 weights of a product, and their scales."""
    if node.operator != b"MatMul":
        return None
    scaled = made_by.get(node.named(_INPUT)[1])
    if scaled is None or scaled.operator != b"Mul":
        return None
    floats, scale = scaled.named(_INPUT)
    cast = made_by.get(floats)
    if cast is None or cast.operator != b"Cast" or not cast.named(_INPUT)[0].endswith(b"_q"):
        return None
    return cast.named(_INPUT)[0], scale


def _product(node: _Node, weights: bytes, scale: bytes) -> bytes:
    inputs = [_Field(_INPUT, _BYTES, name) for name in (node.named(_INPUT)[0], weights, scale)]
    kept = [field for field in node.fields if field.number not in (_INPUT, _OPERATOR, _DOMAIN)]
    operator = [_Field(_OPERATOR, _BYTES, b"DynamicQuantizeMatMul"), _Field(_DOMAIN, _BYTES, _CONTRIB)]
    return _joined([*inputs, *kept, *operator])


def _flat(field: _Field, scales: set[bytes]) -> _Field:
    """A scale of shape ``[1, columns]`` as ``[columns]``; any other tensor as it is."""
    head = [part for part in _fields(field.value) if part.number in (_DIMS, _NAME)]
    if not any(part.number == _NAME and part.value in scales for part in head):
        return field
    parts = list(_fields(field.value))
    dims = [dim for part in parts if part.number == _DIMS for dim in _numbers(part.value)]
    flat = _Field(_DIMS, _BYTES, _varint(max(dims)))
    return _Field(_INITIALIZER, _BYTES, _joined([flat, *(part for part in parts if part.number != _DIMS)]))


def _joined(fields: Iterable[_Field]) -> bytes:
    return b"".join(field.encoded() for field in fields)


def _fields(message: bytes) -> Iterator[_Field]:
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        wire = key & 7
        if wire == _VARINT:
            _, end = _number(message, at)
        elif wire == _BYTES:
            length, at = _number(message, at)
            end = at + length
        else:
            end = at + _FIXED.get(wire, len(message))
        if end > len(message):
            raise ValueError("not a whole protocol buffer")
        yield _Field(key >> 3, wire, message[at:end])
        at = end


def _numbers(packed: bytes) -> Iterator[int]:
    at = 0
    while at < len(packed):
        number, at = _number(packed, at)
        yield number


def _number(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(message):
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise ValueError("not a whole protocol buffer")


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)
