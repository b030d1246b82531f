"""Compares a turn that was taken again with its record: what it did, how it ended, and the state behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import msgpack

from flykka.messages.control.high_availability import LeaderSessionMessage
from flykka.messages.wire.codec import encode
from flykka.messages.wire.errors import CodecError
from flykka.messages.wire.message import Value
from flykka.runtime.replay.effect_differences import DivergenceKind, EffectDifference, compare, compare_failures
from flykka.runtime.trace.diff.value_comparator import same
from flykka.runtime.trace.effects import CutShort, Effect, Undecoded, effect_of
from flykka.runtime.trace.file.chunk_reader import MALFORMED, Content
from flykka.runtime.trace.state.description import digest

if TYPE_CHECKING:
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.recording import Effect as Noted
    from flykka.runtime.trace.file.reader import TraceReader
    from flykka.runtime.trace.records import Turn

_KEPT = 1024
_KEPT_BYTES = 1024
"""So many messages are kept with their forms, of those that are no larger."""


class EffectComparator:
    """Holds the turns of one trace that are taken again against their records.

    Quickly where a turn is the same, closely where it may not be. Of messages that were changed before they were
    written, only the class is compared.
    """

    def __init__(self, trace: TraceReader) -> None:
        self._redacted = trace.header.redacted
        self._forms = _KnownForms()
        self.is_like = _like_but_redacted(trace.header.redacted)
        """Tell whether a message that was told is the recorded one, as far as that can be known."""

    def difference(
        self, turn: Turn, cell: Cell, noted: Sequence[Noted], failure: SerializedThrowable | None
    ) -> EffectDifference | None:
        """The difference of a turn from its record, given the effects that it has noted and its failure."""
        if not self._is_as_recorded(turn.unread, noted, failure):
            difference = self._looked_at(turn, noted, failure)
            if difference is not None:
                return difference
        if turn.digest is not None and cell.instance is not None and digest(cell.instance) != turn.digest:
            return EffectDifference(
                kind=DivergenceKind.STATE_DIGEST, reason="the actor is in another state behind this turn"
            )
        return None

    def _is_as_recorded(self, content: object, noted: Sequence[Noted], failure: SerializedThrowable | None) -> bool:
        """Tell whether that can be told without decoding anything; False also where a closer look might tell it."""
        if failure is not None or not isinstance(content, Content) or content.has_failed:
            return False
        try:
            return content.has_effects(noted, self._forms.is_form_of)
        except MALFORMED:
            return False  # The closer look says what is wrong with them.

    def _looked_at(
        self, turn: Turn, noted: Sequence[Noted], failure: SerializedThrowable | None
    ) -> EffectDifference | None:
        recorded: Sequence[Effect] = turn.effects
        now: Sequence[Effect] = [effect_of(each) for each in noted]
        if self._redacted:
            recorded, now = _without_redacted(recorded, self._redacted), _without_redacted(now, self._redacted)
        difference, failing = compare(recorded, now), compare_failures(turn.failure, failure)
        if difference is not None and failing is not None:
            # Why effects are missing, or more.
            difference = replace(difference, fields=(*difference.fields, *failing.fields))
        difference = difference or failing
        if difference is not None and any(isinstance(effect, CutShort) for effect in turn.effects):
            # Killed while it took this turn: nothing behind the kill was recorded.
            return compare(recorded, now, is_cut_short=True)
        return difference


class _KnownForms:
    """Recorded forms of messages that come again, so that a comparison, made for every message of a replay, is cheap.

    An equal message has the same form; so one that comes again and again is compared, which takes an eighth of the time
    of its encoding. Another one is encoded, which takes half the time of the decoding of its recorded form.
    """

    def __init__(self) -> None:
        self._pack: Callable[[object], bytes] = msgpack.Packer().pack
        self._known: dict[bytes, Value] = {}

    def is_form_of(self, form: bytes | str, message: object) -> bool:
        """Tell whether `message` has this form; False also where a closer look might tell that it has."""
        if isinstance(form, str) or not isinstance(message, Value):
            return False
        known = self._known.get(form)
        if known is not None:
            return known is message or known == message
        try:
            is_form = encode(message, self._pack) == form
        except CodecError:
            return False
        if is_form and len(form) <= _KEPT_BYTES:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[form] = message
        return is_form


def _like_but_redacted(tags: Set[str]) -> Callable[[object, object], bool]:
    """Make the comparison of a message with its record, as far as it can be known where these tags were changed."""
    if not tags:
        return same

    def is_like(recorded: object, now: object) -> bool:
        blank = _blank(recorded, tags)
        return same(recorded, now) if blank is None else blank == _blank(now, tags)

    return is_like


def _without_redacted(effects: Iterable[Effect], tags: Set[str]) -> tuple[Effect, ...]:
    """The effects with nothing but the tag in the place of every message whose tag is among these."""
    return tuple(_blanked(effect, tags) for effect in effects)


def _blanked(effect: Effect, tags: Set[str]) -> Effect:
    said = {field.name: getattr(effect, field.name) for field in fields(effect)}
    blanks: dict[str, Any] = {name: blank for name, item in said.items() if (blank := _blank(item, tags))}
    return replace(effect, **blanks) if blanks else effect


def _blank(item: object, tags: Set[str]) -> Undecoded | None:
    if not isinstance(item, Value):
        return None
    inner = item.message if isinstance(item, LeaderSessionMessage) else item
    return Undecoded(data=b"", reason=f"redacted: {inner.wire_tag}") if inner.wire_tag in tags else None
