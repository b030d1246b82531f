"""How the effects of a turn stand in a block: the place of the kind in this table, then its operands.

Kinds and operands are only ever added at the end. An operand that is not there has the default of its field, so that
what an older version wrote is read as it meant it.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from flykka.runtime.trace import effects

if TYPE_CHECKING:
    from collections.abc import Callable

    from flykka.runtime.recording import Effect as Noted


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

EFFECTS: tuple[tuple[str, Callable[..., effects.Effect], tuple[tuple[str, Operand], ...]], ...] = (
    (
        "send",
        effects.Send,
        (("target", _REF), ("message", _VALUE), ("promise", _REF), ("forwarded", _PLAIN)),
    ),
    ("reply", effects.Reply, (("target", _REF), ("message", _VALUE))),
    ("spawn", effects.Spawn, (("ref", _REF), ("actor", _PLAIN))),
    ("stop", effects.Stop, (("ref", _REF),)),
    ("watch", effects.Watch, (("ref", _REF), ("message", _VALUE))),
    ("unwatch", effects.Unwatch, (("ref", _REF),)),
    (
        "start_timer",
        effects.StartTimer,
        (("key", _PLAIN), ("first_ms", _PLAIN), ("message", _VALUE), ("delay_ms", _PLAIN), ("fixed_rate", _PLAIN)),
    ),
    ("cancel_timer", effects.CancelTimer, (("key", _PLAIN),)),
    ("set_receive_timeout", effects.SetReceiveTimeout, (("timeout_ms", _PLAIN),)),
    ("pipe", effects.Pipe, (("work", _VALUE),)),
    ("stash", effects.Stash, ()),
    ("unstash_all", effects.UnstashAll, (("count", _PLAIN),)),
    ("reject", effects.Reject, (("reason", _PLAIN),)),
    ("publish", effects.Publish, (("message", _VALUE),)),
    ("subscribe", effects.Subscribe, (("subscriber", _PLAIN), ("types", _PLAIN))),
    ("unsubscribe", effects.Unsubscribe, (("subscriber", _PLAIN), ("types", _PLAIN))),
    ("own", effects.Own, (("resource", _PLAIN),)),
    ("become", effects.Become, (("behaviour", _PLAIN), ("discard_old", _PLAIN))),
    ("unbecome", effects.Unbecome, ()),
    ("accept_session", effects.AcceptSession, (("leader_session_id", _PLAIN),)),
    ("revoke_session", effects.RevokeSession, (("leader_session_id", _PLAIN),)),
    ("supervise", effects.Supervise, (("child", _REF), ("directive", _PLAIN), ("delay_ms", _PLAIN))),
    ("kill", effects.Kill, (("ref", _REF),)),
    ("terminate", effects.Terminate, ()),
    ("lookup", effects.Lookup, (("path", _PLAIN), ("refs", _REFS))),
    ("awaited", effects.Awaited, (("now_ms", _PLAIN), ("message", _VALUE), ("failure", _VALUE), ("promise", _REF))),
    ("read_clock", effects.ReadClock, (("now_ms", _PLAIN),)),
    ("refused", effects.Refused, (("path", _PLAIN), ("error", _PLAIN), ("reason", _PLAIN))),
    ("cut_short", effects.CutShort, ()),
)
"""Each kind as turns note it, the record that is made of it, and its operands."""

CODES = {kind: code for code, (kind, _, _) in enumerate(EFFECTS)}
OPERANDS = tuple(tuple(operand for _, operand in operands) for _, _, operands in EFFECTS)


def effect_of(noted: Noted) -> effects.Effect:
    """The record of an effect that was noted in passing."""
    kind, *operands = noted
    _, make, fields = EFFECTS[CODES[kind]]
    return make(**{name: operand for (name, _), operand in zip(fields, operands, strict=False)})
