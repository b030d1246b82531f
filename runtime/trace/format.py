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

Noted = tuple[Any, ...]
"""A record as it is noted in passing: its kind, then what `pack_record` makes bytes of. It holds messages, not copies.

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
    """Makes frames. Not for several threads at once: it keeps its buffer, which halves the cost of a small frame."""

    def __init__(self) -> None:
        # What msgpack has no form for, such as the key of a timer, is shown as it is written: a turn is never lost.
        self._pack = msgpack.Packer(default=repr).pack

    def pack(self, payload: object) -> bytes:
        """One frame."""
        data: bytes = self._pack(payload)
        return FRAME.pack(len(data), zlib.crc32(data)) + data


def pack_record(noted: Noted) -> list[Any]:
    """A record as it stands in its frame."""
    return _PACK[noted[0]](noted)


def _pack_turn(noted: Noted) -> list[Any]:
    kind, sequence, now_ms, recipient, sender, cause, turn_kind, message, effects, failure = noted
    return [
        kind,
        sequence,
        now_ms,
        _pack_ref(recipient),
        _pack_ref(sender),
        cause,
        turn_kind,
        _pack_value(message),
        [[_pack_operand(operand) for operand in effect] for effect in effects],
        _pack_value(failure),
    ]


def _pack_killed(noted: Noted) -> list[Any]:
    kind, sequence, now_ms, ref = noted
    return [kind, sequence, now_ms, _pack_ref(ref)]


def _pack_dead_letter(noted: Noted) -> list[Any]:
    kind, sequence, now_ms, message, sender, recipient, reason = noted
    return [kind, sequence, now_ms, _pack_value(message), _pack_ref(sender), _pack_ref(recipient), reason]


_PACK = {TURN: _pack_turn, KILLED: _pack_killed, DEAD_LETTER: _pack_dead_letter}


def _pack_ref(ref: Ref | None) -> list[Any] | None:
    return None if ref is None else [ref.path, ref.incarnation]


def _pack_value(value: Value | None) -> bytes | str | None:
    if value is None:
        return None
    try:
        return encode(value)
    except CodecError as refusal:
        # Its `repr`, for a trace must not lose the turn.
        return f"{value!r} ({refusal})"


def _pack_operand(operand: Any) -> Any:
    if isinstance(operand, Ref):
        return [operand.path, operand.incarnation]
    return _pack_value(operand) if isinstance(operand, Value) else operand
