"""Operators whose state is one row per key: each batch is processed with the state of its keys, in any engine.

The changes of a batch are a segment of state, in which newer rows of a key replace older rows.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedOutcome(Generic[Frame]):
    """The changes of the state, and the number of late rows that were dropped.

    After timers have fired, `next_timer_ms` is the earliest timer in earlier segments that is not due.
    """

    segment: Segment[Frame] | None
    next_timer_ms: int | None = None
    late_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedResult(Generic[Rows, Frame]):
    """Rows to emit, rows of side outputs by tag, and the `outcome`: the state changes, known after rows were computed.

    `rows` is None if there are no rows and the outcome is computed already. `sent` is the field of `Output`.
    """

    rows: Rows | None
    outcome: Callable[[], KeyedOutcome[Frame]]
    side: Mapping[str, Rows] = field(default_factory=dict)
    sent: Callable[[], SentByFunction | None] | None = None


class KeyedBatches(Protocol[Rows, Frame]):
    def processed(
        self, element: Element[Rows], readings: Sequence[Reading[Frame]], version: int
    ) -> KeyedResult[Rows, Frame]:
        """Process a batch. Its changes get this version; segments of earlier versions contain the state before it."""


class KeyedBatchOperator(KeyedOperator[Rows, Frame]):
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
        result = self.compute(lambda readings, version: self._batches.processed(element, readings, version))
        outcome = cache(result.outcome)

        def on_emitted() -> None:
            self._arrived[element.stage] = outcome().segment

        return Output(
            rows=result.rows,
            side=result.side,
            updates_state=True,
            on_emitted=on_emitted,
            late_rows=lambda: outcome().late_rows,
            sent=result.sent,
        )

    def update_state(self, stage: int) -> None:
        self.store.add(self._arrived.pop(stage))

    def compute(
        self, make: Callable[[Sequence[Reading[Frame]], int], KeyedResult[Rows, Frame]]
    ) -> KeyedResult[Rows, Frame]:
        """Compute rows from all state as the next version. The state is held until the rows are emitted."""
        segments = self.store.segments
        readings, release = self.store.hold(lambda: [segments.reading(each) for each in segments.live])
        # A version is never reused, even if the segments with the last versions no longer exist.
        self._version = 1 + max([self._version, *(each.segment.version for each in readings)])
        result = make(readings, self._version)

        def outcome() -> KeyedOutcome[Frame]:
            try:
                return result.outcome()
            finally:
                release()

        return KeyedResult(rows=result.rows, side=result.side, outcome=outcome, sent=result.sent)
