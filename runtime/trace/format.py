"""The layout of a trace file: frames of msgpack, each with its length and its checksum.

    frame   = length of payload (u32, little endian), CRC32 of payload (u32), payload
    payload = the header map, then one array per record, headed by the kind of record

Messages lie in the records in their own encoding, so that a reader may leave them packed. Frames are in the order in
which turns ended; sequence numbers tell the order in which they began.
"""

from __future__ import annotations

import os
import platform
import struct
import zlib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import msgpack

from flykka.messages.codec import encode
from flykka.messages.errors import CodecError
from flykka.messages.message import Value
from flykka.messages.ref import Ref

if TYPE_CHECKING:
    from flykka.messages.failure import SerializedThrowable
    from flykka.messages.message import Message
    from flykka.runtime.envelope import Envelope
    from flykka.runtime.recording import Effect

FORMAT_NAME = "flykka.trace"
FORMAT_VERSION = 1

FRAME = struct.Struct("<II")
MAX_FRAME_BYTES = 1 << 30
"""A length above this is damage, not a frame."""

TURN = 0
KILLED = 1
DEAD_LETTER = 2

_KEPT = 512
"""So many packed refs, and so many packed messages."""
_KEPT_BYTES = 1024
"""Larger messages are packed anew."""

# msgpack's own marks: an array of so many, a 64-bit number, nothing.
_ARRAY = 0x90
_ARRAYS = tuple(bytes([_ARRAY | length]) for length in range(16))
_U64 = 0xCF
_NIL = b"\xc0"
_HEAD = struct.Struct(">BBBQBQ")
_NUMBER = struct.Struct(">BQ")
_ARRAY32 = struct.Struct(">BI")
_SEND = _ARRAYS[3] + msgpack.packb("send")
_KINDS: dict[str, bytes] = {kind: msgpack.packb(kind) for kind in ("message", "timer", "signal")}

Noted = tuple[Any, ...]
"""A record as it is noted in passing: its kind, then what `FramePacker` makes bytes of. It holds messages, not copies.

Not the envelope: that of a failure holds the living exception with its frames, that of an ask the future.
"""


def note_turn(
    sequence: int,
    now_ms: int,
    recipient: Ref,
    envelope: Envelope,
    effects: list[Effect],
    failure: SerializedThrowable | None,
) -> Noted:
    """An actor has taken a turn."""
    sender, cause, message = envelope.sender, envelope.cause, envelope.message
    return (TURN, sequence, now_ms, recipient, sender, cause, envelope.kind, message, effects, failure)


def note_killed(sequence: int, now_ms: int, ref: Ref) -> Noted:
    """An actor was killed."""
    return (KILLED, sequence, now_ms, ref)


def note_dead_letter(
    sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
) -> Noted:
    """A message found no one to handle it."""
    return (DEAD_LETTER, sequence, now_ms, message, sender, recipient, reason)


def header(system: str, seed: int) -> dict[str, Any]:
    """What stands at the head of every trace."""
    try:
        package = version("flykka")
    except PackageNotFoundError:
        package = "not installed"
    return {
        "format": FORMAT_NAME,
        "version": FORMAT_VERSION,
        "system": system,
        "seed": seed,
        "package": package,
        "python": platform.python_version(),
        "hash_seed": os.environ.get("PYTHONHASHSEED", "random"),
    }


class FramePacker:
    """Makes frames. Not for several threads at once: it keeps its buffers, and what it has packed lately.

    The payloads of records are put together from packed pieces, for most pieces of a record have been in one before:
    who took the turn, who sent the message, and the message itself, which is in the record of the turn that sent it
    and in that of the turn that handles it. Messages are immutable, so that one that was packed need not be again.
    """

    def __init__(self) -> None:
        # What msgpack has no form for, such as the key of a timer, is shown as it is written: a turn is never lost.
        self._pack: Callable[[object], bytes] = msgpack.Packer(default=repr).pack
        self._pack_wire: Callable[[object], bytes] = msgpack.Packer().pack
        self._refs: dict[tuple[str, int], bytes] = {}
        self._values: dict[int, tuple[Value, bytes]] = {}

    def pack(self, payload: object) -> bytes:
        """One frame."""
        return _framed(self._pack(payload))

    def pack_record(self, noted: Noted) -> bytes:
        """The frame of a record."""
        if noted[0] == TURN:
            return self._turn(noted)
        kind, sequence, now_ms = noted[:3]
        if kind == KILLED:
            return _framed(_HEAD.pack(_ARRAY | 4, kind, _U64, sequence, _U64, now_ms) + self._ref(noted[3]))
        message, sender, recipient, reason = noted[3:]
        pieces = (
            _HEAD.pack(_ARRAY | 7, kind, _U64, sequence, _U64, now_ms),
            self._value(message),
            self._ref(sender),
            self._ref(recipient),
            self._pack(reason),
        )
        return _framed(b"".join(pieces))

    def _turn(self, noted: Noted) -> bytes:
        kind, sequence, now_ms, recipient, sender, cause, turn_kind, message, effects, failure = noted
        ref = self._ref(recipient)
        pieces = [
            _HEAD.pack(_ARRAY | 10, kind, _U64, sequence, _U64, now_ms),
            ref,
            _NIL if sender is None else ref if sender is recipient else self._ref(sender),
            _NIL if cause is None else _NUMBER.pack(_U64, cause),
            _KINDS[turn_kind],
            self._value(message),
            _ARRAYS[len(effects)] if len(effects) < 16 else _ARRAY32.pack(0xDD, len(effects)),
        ]
        for effect in effects:
            if effect[0] == "send":
                _, target, sent = effect
                pieces += (_SEND, self._ref(target), self._value(sent))
            else:
                pieces += (_ARRAYS[len(effect)], *map(self._operand, effect))
        pieces.append(_NIL if failure is None else self._value(failure))
        return _framed(b"".join(pieces))

    def _operand(self, operand: object) -> bytes:
        if isinstance(operand, Ref):
            return self._ref(operand)
        return self._value(operand) if isinstance(operand, Value) else self._pack(operand)

    def _ref(self, ref: Ref | None) -> bytes:
        if ref is None:
            return _NIL
        key = (ref.path, ref.incarnation)
        packed = self._refs.get(key)
        if packed is None:
            if len(self._refs) >= _KEPT:
                self._refs.clear()
            packed = self._refs[key] = self._pack(key)
        return packed

    def _value(self, value: Value | None) -> bytes:
        if value is None:
            return _NIL
        kept = self._values.get(id(value))
        if kept is not None:
            return kept[1]
        try:
            packed = self._pack(encode(value, self._pack_wire))
        except CodecError as refusal:
            # Its `repr`, for a trace must not lose the turn.
            packed = self._pack(f"{value!r} ({refusal})")
        if len(packed) <= _KEPT_BYTES:
            if len(self._values) >= _KEPT:
                self._values.clear()
            # Held, so that its id is not another's.
            self._values[id(value)] = (value, packed)
        return packed


def _framed(data: bytes) -> bytes:
    return FRAME.pack(len(data), zlib.crc32(data)) + data
