"""Holds a turn that was taken again against its record: quickly where it is the same, closely where it may not be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flykka.runtime.trace.chunk_reader import MALFORMED, Content
from flykka.runtime.trace.effect_forms import effect_of
from flykka.runtime.trace.effects import CutShort, Effect
from flykka.runtime.trace.records import Killed, Turn
from flykka.runtime.trace.replay.comparison import Difference, DivergenceKind, compare, compare_failures
from flykka.runtime.trace.replay.forms import Forms
from flykka.runtime.trace.replay.older import as_in_first_format
from flykka.runtime.trace.replay.redacted import like_but_redacted, without_redacted
from flykka.runtime.trace.state import digest

if TYPE_CHECKING:
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.recording import Effect as Noted
    from flykka.runtime.trace.reader import Trace


class Judge:
    """Judges the turns of one trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._forms = Forms()
        self._kills: dict[Ref, int] | None = None
        self.is_like = like_but_redacted(trace.header.redacted)
        """Whether a message that was told is the recorded one, as far as that can be known."""

    def difference(
        self, turn: Turn, cell: Cell, noted: Sequence[Noted], failure: SerializedThrowable | None
    ) -> Difference | None:
        """In what a turn differs from its record: these are its effects, as it has noted them, and its failure."""
        if not self._is_as_recorded(turn.unread, noted, failure):
            difference = self._looked_at(turn, noted, failure)
            if difference is not None:
                return difference
        if turn.digest is not None and cell.instance is not None and digest(cell.instance) != turn.digest:
            return Difference(DivergenceKind.STATE_DIGEST, reason="the actor is in another state behind this turn")
        return None

    def _is_as_recorded(self, content: object, noted: Sequence[Noted], failure: SerializedThrowable | None) -> bool:
        """Whether that can be told without decoding anything; False also where a closer look might tell it."""
        if failure is not None or not isinstance(content, Content) or content.has_failed:
            return False
        try:
            return content.has_effects(noted, self._forms.is_form_of)
        except MALFORMED:
            return False  # The closer look says what is wrong with them.

    def _looked_at(self, turn: Turn, noted: Sequence[Noted], failure: SerializedThrowable | None) -> Difference | None:
        header = self._trace.header
        recorded: Sequence[Effect] = turn.effects
        now: Sequence[Effect] = [effect_of(each) for each in noted]
        if header.format_version == 1:
            now = as_in_first_format(now)
        if header.redacted:
            recorded, now = without_redacted(recorded, header.redacted), without_redacted(now, header.redacted)
        difference, failing = compare(recorded, now), compare_failures(turn.failure, failure)
        if difference is not None and failing is not None:
            # Why effects are missing, or more.
            difference = replace(difference, fields=(*difference.fields, *failing.fields))
        difference = difference or failing
        if difference is not None and self._was_cut_short(turn):
            return compare(recorded, now, is_cut_short=True)
        return difference

    def _was_cut_short(self, turn: Turn) -> bool:
        """Whether the actor was killed while it took this turn: then nothing behind the kill was recorded.

        Traces of the first format do not tell. There it may have been so in the last turn before a kill.
        """
        if self._trace.header.format_version > 1:
            return any(isinstance(effect, CutShort) for effect in turn.effects)
        if self._kills is None:
            kills = (record for record in self._trace.records() if isinstance(record, Killed))
            self._kills = {kill.ref: kill.sequence for kill in kills}
        return self._kills.get(turn.recipient, 0) > turn.sequence and self._is_last(turn)

    def _is_last(self, turn: Turn) -> bool:
        later = (record for record in self._trace.records() if isinstance(record, Turn))
        return all(each.sequence <= turn.sequence for each in later if each.recipient == turn.recipient)
