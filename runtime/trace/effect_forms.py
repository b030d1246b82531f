"""How the effects of a turn stand in a block: the place of the kind in this table, then its operands.

Kinds and operands are only ever added at the end. An operand that is not there has the default of its field, so that
what an older version wrote is read as it meant it.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from flykka.runtime.trace import records

if TYPE_CHECKING:
    from collections.abc import Callable


class Operand(Enum):
    """What an operand is, and so what stands in its place."""

    REF = auto()
    """The number of a ref in its block, or None."""
    REFS = auto()
    VALUE = auto()
    """The number of a value in its block, or None."""
    PLAIN = auto()
    """Itself: None, a text, a number, or several in a tuple."""


_REF, _REFS, _VALUE, _PLAIN = Operand

SEND = 0
"""The kind that most effects are of."""

EFFECTS: tuple[tuple[str, Callable[..., records.Effect], tuple[tuple[str, Operand], ...]], ...] = (
    (
        "send",
        records.Send,
        (("target", _REF), ("message", _VALUE), ("promise", _REF), ("forwarded", _PLAIN)),
    ),
    ("reply", records.Reply, (("target", _REF), ("message", _VALUE))),
    ("spawn", records.Spawn, (("ref", _REF), ("actor", _PLAIN))),
    ("stop", records.Stop, (("ref", _REF),)),
    ("watch", records.Watch, (("ref", _REF), ("message", _VALUE))),
    ("unwatch", records.Unwatch, (("ref", _REF),)),
    (
        "start_timer",
        records.StartTimer,
        (("key", _PLAIN), ("first_ms", _PLAIN), ("message", _VALUE), ("delay_ms", _PLAIN), ("fixed_rate", _PLAIN)),
    ),
    ("cancel_timer", records.CancelTimer, (("key", _PLAIN),)),
    ("set_receive_timeout", records.SetReceiveTimeout, (("timeout_ms", _PLAIN),)),
    ("pipe", records.Pipe, (("work", _VALUE),)),
    ("stash", records.Stash, ()),
    ("unstash_all", records.UnstashAll, (("count", _PLAIN),)),
    ("reject", records.Reject, (("reason", _PLAIN),)),
    ("publish", records.Publish, (("message", _VALUE),)),
    ("subscribe", records.Subscribe, (("subscriber", _PLAIN), ("types", _PLAIN))),
    ("unsubscribe", records.Unsubscribe, (("subscriber", _PLAIN), ("types", _PLAIN))),
    ("own", records.Own, (("resource", _PLAIN),)),
    ("become", records.Become, (("behaviour", _PLAIN), ("discard_old", _PLAIN))),
    ("unbecome", records.Unbecome, ()),
    ("accept_session", records.AcceptSession, (("leader_session_id", _PLAIN),)),
    ("revoke_session", records.RevokeSession, (("leader_session_id", _PLAIN),)),
    ("supervise", records.Supervise, (("child", _REF), ("directive", _PLAIN), ("delay_ms", _PLAIN))),
    ("kill", records.Kill, (("ref", _REF),)),
    ("terminate", records.Terminate, ()),
    ("lookup", records.Lookup, (("path", _PLAIN), ("refs", _REFS))),
    ("awaited", records.Awaited, (("now_ms", _PLAIN), ("message", _VALUE), ("failure", _VALUE), ("promise", _REF))),
    ("read_clock", records.ReadClock, (("now_ms", _PLAIN),)),
)
"""Each kind as turns note it, the record that is made of it, and its operands."""

CODES = {kind: code for code, (kind, _, _) in enumerate(EFFECTS)}
OPERANDS = tuple(tuple(operand for _, operand in operands) for _, _, operands in EFFECTS)
