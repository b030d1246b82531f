"""Compares a replayed turn with its record: its effects, its outcome, and the actor's state afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgpack

from flykka.messages.kernel.leader_session import LeaderSessionMessage
from flykka.messages.wire.codec import encode
from flykka.messages.wire.errors import CodecError
from flykka.messages.wire.message import Value
from flykka.runtime.path import TEMP
from flykka.runtime.replay.system import BOUNDARY_ACTOR
from flykka.runtime.trace import effects
from flykka.runtime.trace.diff.value_comparator import ABSENT, FieldDifference, ValueComparator, same
from flykka.runtime.trace.effects import Effect, Undecoded, effect_of
from flykka.runtime.trace.file.chunk_reader import MALFORMED, Content
from flykka.runtime.trace.state.description import digest

if TYPE_CHECKING:
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.recording import Effect as EffectTuple
    from flykka.runtime.trace.file.reader import TraceReader
    from flykka.runtime.trace.records import Turn


_NO_DEEDS = (effects.CutShort, effects.Lookup, effects.ReadClock, effects.Refused)
_FIELDS = ValueComparator(ignored=("stack_trace",), renames=False)
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}")


class DivergenceKind(StrEnum):
    MISSING_SEND = "missing_send"
    EXTRA_SEND = "extra_send"
    PAYLOAD = "payload"
    """The right message to the right actor, with different fields."""
    TARGET = "target"
    """The right message to a different actor."""
    REPLY = "reply"
    TIMER = "timer"
    SPAWN = "spawn"
    STOP = "stop"
    SUPERVISION = "supervision"
    EFFECT = "effect"
    """Any other effect of a turn: watch, stash, publish, start blocking work."""
    FAILURE = "failure"
    """Only one of the two turns failed, or both failed differently."""
    DELIVERY = "delivery"
    """The actor cannot handle the recorded message: it has ended, has failed, or has cancelled the timer."""
    STATE_DIGEST = "state_digest"
    """The effects are the same, but the state afterwards is not."""
    UNKNOWN_TYPE = "unknown_type"
    """The recorded message cannot be read here, so it cannot be handled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectDifference:
    """The first difference between a turn and its record.

    `expected` is the recorded effect and `actual` the effect of the replay; one is None if that side has no such
    effect. `fields` are the parts that differ, the recorded value on the left. `missing` and `extra` are all effects of
    the turn that only one side has.
    """

    kind: DivergenceKind
    expected: Effect | None = None
    actual: Effect | None = None
    fields: tuple[FieldDifference, ...] = ()
    missing: tuple[Effect, ...] = ()
    extra: tuple[Effect, ...] = ()
    reason: str = ""


def compare(
    recorded: Sequence[Effect], now: Sequence[Effect], *, is_cut_short: bool = False
) -> EffectDifference | None:
    """Return the first difference between the effects of two turns, in order.

    Queries of a turn (which actors live at a path, the time, whether a name is free) are not compared, because their
    consequences are. If the record `is_cut_short`, the turn may have continued.
    """
    recorded = [each for each in recorded if not isinstance(each, _NO_DEEDS)]
    now = [each for each in now if not isinstance(each, _NO_DEEDS)]
    if is_cut_short:
        now = now[: len(recorded)]
    for place in range(max(len(recorded), len(now))):
        if place >= len(recorded):
            return _effect_difference(None, now[place], recorded, now)
        if place >= len(now):
            return _effect_difference(recorded[place], None, recorded, now)
        if not same_effect(recorded[place], now[place]):
            expected, actual = _aligned(recorded[place:], now[place:])
            return _effect_difference(expected, actual, recorded, now)
    return None


def compare_failures(recorded: SerializedThrowable | None, now: SerializedThrowable | None) -> EffectDifference | None:
    """Compare two failures by type and text, because their stacks differ in every version."""
    if raised(recorded) == raised(now):
        return None
    difference = FieldDifference("failure", recorded or ABSENT, now or ABSENT)
    return EffectDifference(kind=DivergenceKind.FAILURE, fields=(difference,))


def raised(failure: SerializedThrowable | None) -> str | None:
    return None if failure is None else f"{failure.type_name}: {_ADDRESS.sub('0x...', failure.message)}"


def same_effect(recorded: Effect, now: Effect) -> bool:
    if recorded == now:
        return True
    if isinstance(now, effects.Spawn) and now.actor == BOUNDARY_ACTOR and isinstance(recorded, effects.Spawn):
        return recorded.ref == now.ref  # The actor there is not replayed.
    recorded, now = _as_reply(recorded), _as_reply(now)
    if isinstance(recorded, effects.Awaited) and isinstance(now, effects.Awaited):
        # The recorded time is an input of the turn, not an effect.
        now = replace(now, now_ms=recorded.now_ms)
    if type(recorded) is not type(now):
        return False
    return all(same(getattr(recorded, each.name), getattr(now, each.name)) for each in fields(recorded))


def kind_of(expected: Effect | None, actual: Effect | None) -> DivergenceKind:
    match expected, actual:
        case effects.Send(), effects.Send():
            return DivergenceKind.PAYLOAD if expected.target == actual.target else DivergenceKind.TARGET
        case (effects.Send(), _):
            return DivergenceKind.MISSING_SEND
        case (None, effects.Send()):
            return DivergenceKind.EXTRA_SEND
        case _:
            return _kind_of_other(actual if expected is None else expected)


def _kind_of_other(effect: Effect | None) -> DivergenceKind:
    match effect:
        case effects.Reply():
            return DivergenceKind.REPLY
        case effects.StartTimer() | effects.CancelTimer() | effects.SetReceiveTimeout():
            return DivergenceKind.TIMER
        case effects.Spawn():
            return DivergenceKind.SPAWN
        case effects.Stop():
            return DivergenceKind.STOP
        case effects.Supervise():
            return DivergenceKind.SUPERVISION
        case _:
            return DivergenceKind.EFFECT


def _effect_difference(
    expected: Effect | None, actual: Effect | None, recorded: Sequence[Effect], now: Sequence[Effect]
) -> EffectDifference:
    absent, extra = _unmatched(recorded, now), _unmatched(now, recorded)
    difference = (
        () if expected is None or actual is None else tuple(_FIELDS.differences(_compared(expected), _compared(actual)))
    )
    return EffectDifference(
        kind=kind_of(expected, actual),
        expected=expected,
        actual=actual,
        fields=difference,
        missing=absent,
        extra=extra,
    )


def _compared(effect: Effect) -> object:
    message = getattr(effect, "message", None)
    return message if isinstance(message, Value | Undecoded) else effect


def _aligned(recorded: Sequence[Effect], now: Sequence[Effect]) -> tuple[Effect | None, Effect | None]:
    """Find the first unmatched effects of two lists. If an effect occurs later on the other side, that other side has
    an extra effect.
    """
    first, actual = recorded[0], now[0]
    comes_later = any(same_effect(first, each) for each in now[1:])
    was_later = any(same_effect(each, actual) for each in recorded[1:])
    if was_later and not comes_later:
        return first, None
    if comes_later and not was_later:
        return None, actual
    alike = type(_as_reply(first)) is type(_as_reply(actual))
    if isinstance(first, effects.Send) and isinstance(actual, effects.Send) and first.target != actual.target:
        # A different message to a different actor is not the first message with a wrong target.
        alike = type(first.message) is type(actual.message)
    return first, actual if alike or comes_later else None


def _unmatched(expected: Sequence[Effect], actual: Sequence[Effect]) -> tuple[Effect, ...]:
    remaining = list(actual)
    unmatched = []
    for effect in expected:
        for place, other in enumerate(remaining):
            if same_effect(effect, other):
                del remaining[place]
                break
        else:
            unmatched.append(effect)
    return tuple(unmatched)


def _as_reply(effect: Effect) -> Effect:
    """Treat a message to the path of an ask as a reply, even if the ask has already ended."""
    if isinstance(effect, effects.Send) and effect.target.path.startswith(TEMP):
        return effects.Reply(target=effect.target, message=effect.message)
    return effect


_KEPT = 1024
_KEPT_BYTES = 1024
"""The maximum number of cached messages, and the maximum size in bytes of each."""


class EffectComparator:
    """Compares the replayed turns of one trace with their records.

    Identical turns are compared fast, others in detail. For messages that were redacted before they were written, only
    the class is compared.
    """

    def __init__(self, trace: TraceReader) -> None:
        self._redacted = trace.header.redacted
        self._forms = _KnownForms()
        self.is_like = _like_but_redacted(trace.header.redacted)
        """Returns True if a sent message equals the recorded one, as far as redaction allows."""

    def difference(
        self, turn: Turn, cell: Cell, performed: Sequence[EffectTuple], failure: SerializedThrowable | None
    ) -> EffectDifference | None:
        if not self._is_as_recorded(turn.unread, performed, failure):
            difference = self._compare_records(turn, performed, failure)
            if difference is not None:
                return difference
        if turn.digest is not None and cell.instance is not None and digest(cell.instance) != turn.digest:
            return EffectDifference(
                kind=DivergenceKind.STATE_DIGEST, reason="the actor's state after this turn differs"
            )
        return None

    def _is_as_recorded(
        self, content: object, performed: Sequence[EffectTuple], failure: SerializedThrowable | None
    ) -> bool:
        if failure is not None or not isinstance(content, Content) or content.has_failed:
            return False
        try:
            return content.has_effects(performed, self._forms.is_form_of)
        except MALFORMED:
            return False  # The detailed comparison reports the difference.

    def _compare_records(
        self, turn: Turn, performed: Sequence[EffectTuple], failure: SerializedThrowable | None
    ) -> EffectDifference | None:
        recorded: Sequence[Effect] = turn.effects
        now: Sequence[Effect] = [effect_of(each) for each in performed]
        if self._redacted:
            recorded, now = _without_redacted(recorded, self._redacted), _without_redacted(now, self._redacted)
        difference, failing = compare(recorded, now), compare_failures(turn.failure, failure)
        if difference is not None and failing is not None:
            # The failure explains why effects are missing or added.
            difference = replace(difference, fields=(*difference.fields, *failing.fields))
        difference = difference or failing
        if difference is not None and any(isinstance(effect, effects.CutShort) for effect in turn.effects):
            # The actor was killed during this turn, so effects after the kill were not recorded.
            return compare(recorded, now, is_cut_short=True)
        return difference


class _KnownForms:
    """Caches the recorded forms of repeated messages, so that comparisons are cheap: every message of a replay is
    compared.

    An equal message has the same form. Comparing a repeated message takes an eighth of the time of its encoding, and
    encoding a different one takes half the time of decoding the recorded form.
    """

    def __init__(self) -> None:
        self._pack: Callable[[object], bytes] = msgpack.Packer().pack
        self._cached: dict[bytes, Value] = {}

    def is_form_of(self, form: bytes | str, message: object) -> bool:
        """Return True if `message` has this form, or False if only a detailed comparison can decide."""
        if isinstance(form, str) or not isinstance(message, Value):
            return False
        expected = self._cached.get(form)
        if expected is not None:
            return expected is message or expected == message
        try:
            is_form = encode(message, self._pack) == form
        except CodecError:
            return False
        if is_form and len(form) <= _KEPT_BYTES:
            if len(self._cached) >= _KEPT:
                self._cached.clear()
            self._cached[form] = message
        return is_form


def _like_but_redacted(tags: Set[str]) -> Callable[[object, object], bool]:
    if not tags:
        return same

    def is_like(recorded: object, now: object) -> bool:
        blank = _blank(recorded, tags)
        return same(recorded, now) if blank is None else blank == _blank(now, tags)

    return is_like


def _without_redacted(effects: Iterable[Effect], tags: Set[str]) -> tuple[Effect, ...]:
    return tuple(_blanked(effect, tags) for effect in effects)


def _blanked(effect: Effect, tags: Set[str]) -> Effect:
    values = {field.name: getattr(effect, field.name) for field in fields(effect)}
    blanks: dict[str, Any] = {name: blank for name, item in values.items() if (blank := _blank(item, tags))}
    return replace(effect, **blanks) if blanks else effect


def _blank(item: object, tags: Set[str]) -> Undecoded | None:
    if not isinstance(item, Value):
        return None
    inner = item.message if isinstance(item, LeaderSessionMessage) else item
    return Undecoded(data=b"", reason=f"redacted: {inner.wire_tag}") if inner.wire_tag in tags else None
