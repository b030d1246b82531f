"""The first version of the format, for reading: one frame for each record, in which everything stands as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgpack

from flykka.messages.wire.ref import Ref
from flykka.runtime.trace.effect_forms import CODES, EFFECTS, Operand
from flykka.runtime.trace.effects import Effect
from flykka.runtime.trace.noted import KILLED, TURN
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Turn

if TYPE_CHECKING:
    from flykka.runtime.trace.decoding import Decoding


def read_record(payload: bytes, decoding: Decoding) -> Record:
    """The record of a frame."""
    kind, sequence, now_ms, *fields = msgpack.unpackb(payload)
    if kind == TURN:
        recipient, sender, cause, turn_kind, message, effects, failure = fields
        return Turn(
            sequence=sequence,
            now_ms=now_ms,
            recipient=Ref(*recipient),
            sender=_ref(sender),
            cause=cause,
            kind=turn_kind,
            message=decoding.value(message),
            effects=tuple(_effect(effect, decoding) for effect in effects),
            failure=None if failure is None else decoding.failure(failure),
        )
    if kind == KILLED:
        return Killed(sequence=sequence, now_ms=now_ms, ref=Ref(*fields[0]))
    message, sender, recipient, reason = fields
    return DeadLetterRecord(
        sequence=sequence,
        now_ms=now_ms,
        message=decoding.value(message),
        sender=_ref(sender),
        recipient=Ref(*recipient),
        reason=reason,
    )


def _effect(packed: list[Any], decoding: Decoding) -> Effect:
    kind, *operands = packed
    _, make, fields = EFFECTS[CODES[kind]]
    told: dict[str, Any] = {}
    for (name, operand), item in zip(fields, operands, strict=False):
        if operand is Operand.REF:
            told[name] = _ref(item)
        elif operand is Operand.VALUE and item is not None:
            told[name] = decoding.value(item)
        else:
            told[name] = item
    return make(**told)


def _ref(packed: list[Any] | None) -> Ref | None:
    return None if packed is None else Ref(*packed)
