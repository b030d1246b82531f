"""The layout of a trace file: frames of msgpack, each with its length and its checksum.

    frame   = length of payload (u32, little endian), CRC32 of payload (u32), payload
    payload = the header map, then one array per record, headed by the kind of record

Messages lie in the records in their own encoding, so that a reader may leave them packed. Frames are in the order in
which turns ended; sequence numbers tell the order in which they began.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import msgpack

from flykka.messages.codec import encode
from flykka.messages.errors import CodecError
from flykka.messages.message import Value
from flykka.messages.ref import Ref

FORMAT_NAME = "flykka.trace"
FORMAT_VERSION = 1

FRAME = struct.Struct("<II")
MAX_FRAME_BYTES = 1 << 30
"""A length above this is damage, not a frame."""

TURN = 0
KILLED = 1
DEAD_LETTER = 2


class FramePacker:
    """Makes frames. Not for several threads at once: it keeps its buffer, which halves the cost of a small frame."""

    def __init__(self) -> None:
        self._pack = msgpack.Packer().pack

    def pack(self, payload: object) -> bytes:
        """One frame."""
        data: bytes = self._pack(payload)
        return FRAME.pack(len(data), zlib.crc32(data)) + data


def pack_ref(ref: Ref | None) -> list[Any] | None:
    """Path and incarnation."""
    return None if ref is None else [ref.path, ref.incarnation]


def pack_value(value: Value | None) -> bytes | str | None:
    """The value as the codec has it; as its `repr` where the codec refuses it, for a trace must not lose the turn."""
    if value is None:
        return None
    try:
        return encode(value)
    except CodecError as refusal:
        return f"{value!r} ({refusal})"


def pack_effect(effect: tuple[Any, ...]) -> list[Any]:
    """An effect as it was noted in passing: its kind, then its operands."""
    return [_pack_operand(operand) for operand in effect]


def _pack_operand(operand: Any) -> Any:
    if isinstance(operand, Ref):
        return [operand.path, operand.incarnation]
    return pack_value(operand) if isinstance(operand, Value) else operand
