"""Operators whose state is a row for each key: a batch meets the state of its keys, in whatever engine.

What a batch has changed is a segment of state, in which newer rows of a key take the place of older ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Generic, Protocol

from flykka.actors.machines.state.segments import Frame, Reading, Segment, Segments
from flykka.messages.tasks.operator_event import SentByFunction
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.operators.keyed_store import KeyedOperator, KeyedStore
from flykka.spark_bridge.operators.operator import Element, Output, Rows
from flykka.spark_bridge.state.state_backend import StateBackend

STATE = "keyed"
"""The name of the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedOutcome(Generic[Frame]):
    """The changes of the state, and the number of rows that were dropped, for they came too late.

    Where timers have fired, the first of those in the segments before that are not due.
    """

    segment: Segment[Frame] | None
    next_timer_ms: int | None = None
    late_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedResult(Generic[Rows, Frame]):
    """Rows to emit, and those of side outputs by tag; when they are emitted, it is `told` what has changed.

    The rows are None where there are none and all is computed already. `sent` is as that of an `Output`.
    """

    rows: Rows | None
    told: Callable[[], KeyedOutcome[Frame]]
    side: Mapping[str, Rows] = field(default_factory=dict)
    sent: Callable[[], SentByFunction | None] | None = None


class KeyedBatches(Protocol[Rows, Frame]):
    """Processes keyed rows with the state of their keys, in an engine."""

    def processed(
        self, element: Element[Rows], readings: Sequence[Reading[Frame]], version: int
    ) -> KeyedResult[Rows, Frame]:
        """Process a batch; what it changes is of a version, and the state before it in segments of earlier ones."""


class KeyedBatchOperator(KeyedOperator[Rows, Frame]):
    """The state of one attempt, and what batches make of it."""

    def __init__(
        self, operator_id: OperatorId, batches: KeyedBatches[Rows, Frame], backend: StateBackend[Frame]
    ) -> None:
        self._batches = batches
        self.store: KeyedStore[Frame] = KeyedStore(backend, Segments(), STATE)
        self._arrived: dict[int, Segment[Frame] | None] = {}
        self._version = 0
        super().__init__(operator_id, {STATE: self.store})

    @property
    def is_ordered(self) -> bool:
        return True

    def process_batch(self, element: Element[Rows]) -> Output[Rows]:
        """Emit what is made of a batch and of the state of its keys."""
        made = self.made(lambda readings, version: self._batches.processed(element, readings, version))
        told = cache(made.told)

        def on_emitted() -> None:
            self._arrived[element.stage] = told().segment

        return Output(
            rows=made.rows,
            side=made.side,
            updates_state=True,
            on_emitted=on_emitted,
            late_rows=lambda: told().late_rows,
            sent=made.sent,
        )

    def update_state(self, stage: int) -> None:
        self.store.add(self._arrived.pop(stage))

    def made(
        self, make: Callable[[Sequence[Reading[Frame]], int], KeyedResult[Rows, Frame]]
    ) -> KeyedResult[Rows, Frame]:
        """Make rows of all of the state, which is held until they are emitted, as the next version."""
        segments = self.store.segments
        readings, release = self.store.held(lambda: [segments.reading(each) for each in segments.live])
        # No version comes again, also where the segments of the last ones are gone.
        self._version = 1 + max([self._version, *(each.segment.version for each in readings)])
        made = make(readings, self._version)

        def told() -> KeyedOutcome[Frame]:
            try:
                return made.told()
            finally:
                release()

        return KeyedResult(rows=made.rows, side=made.side, told=told, sent=made.sent)
