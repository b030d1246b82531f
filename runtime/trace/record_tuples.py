"""Records as plain tuples that start with their kind and hold the messages themselves, not copies.

They hold no envelopes, because the envelope of a failure contains the live exception with its frames, and the envelope
of an ask contains the future.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flykka.runtime.trace.state.graph_writer import pack_props

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.props import Props

RecordTuple = tuple[Any, ...]

TURN = 0
"""The kind of a turn, followed by sequence, time, recipient, sender, cause, kind, message, effects, failure and digest.
"""
KILLED = 1
DEAD_LETTER = 2
SPAWNED = 3


def spawned_tuple(sequence: int, now_ms: int, ref: Ref, parent: Ref, props: Props) -> RecordTuple:
    return (SPAWNED, sequence, now_ms, ref, parent, props.factory_name, pack_props(props))


def killed_tuple(sequence: int, now_ms: int, ref: Ref) -> RecordTuple:
    return (KILLED, sequence, now_ms, ref)


def dead_letter_tuple(
    sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
) -> RecordTuple:
    return (DEAD_LETTER, sequence, now_ms, message, sender, recipient, reason)
