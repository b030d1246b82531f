"""Running aggregates of each key, without windows (Flink SQL's GroupAggFunction).

State is partial aggregates by key, as they come; what is known of a key is the sum of its parts. Each batch emits, for
every key that it has, the aggregates of all rows so far: those parts of the state that are of its keys, and its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.actors.machines.state.segments import Reading, Segment, Segments
from flykka.spark_bridge.operators.keyed_store import KeyedOperator, KeyedStore
from flykka.spark_bridge.operators.operator import Element, Output
from flykka.spark_bridge.rows.materialise import Slices
from flykka.spark_bridge.state.state_backend import gathered

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.messages.wire.ids import OperatorId
    from flykka.spark_bridge.program.aggregates import PartialAggregates
    from flykka.spark_bridge.state.state_backend import SparkStateBackend

ACCUMULATORS = "accumulators"
"""The name of the state."""

_BROADCAST_ROWS = 1_000_000
"""Up to so many keys of a batch are sent to every partition of the state; else both are shuffled."""


@dataclass(frozen=True, slots=True)
class UntimedLayout:
    """The columns of state that is not cut by event time. Implements `StateLayout`."""

    plan: PartialAggregates

    @property
    def keys(self) -> tuple[Column, ...]:
        """The keys, as expressions over state."""
        return self.plan.keys

    def merge(self, state: DataFrame) -> DataFrame:
        """Merge the parts of each key."""
        return self.plan.merge(state)

    def times(self) -> Mapping[str, Column]:
        """There are none."""
        return {}

    def between(self, state: DataFrame, from_ms: int | None, until_ms: int | None) -> DataFrame:
        """All of it."""
        return state

    def later(self, state: DataFrame, closed_to_ms: int | None) -> DataFrame:
        """All of it."""
        return state


class GroupAggregateOperator(KeyedOperator[Slices, "DataFrame"]):
    """The running aggregates of one attempt. It reads state that was made before the exchange."""

    def __init__(self, operator_id: OperatorId, plan: PartialAggregates, backend: SparkStateBackend) -> None:
        self._plan = plan
        self._backend = backend
        self._store: KeyedStore[DataFrame] = KeyedStore(backend, Segments(), ACCUMULATORS)
        self._arrived: dict[int, Segment[DataFrame]] = {}
        super().__init__(operator_id, {ACCUMULATORS: self._store})

    @property
    def is_ordered(self) -> bool:
        """What a batch emits depends on those before it."""
        return True

    def process(self, element: Element[Slices]) -> Output[Slices]:
        """Emit the aggregates of every key of the batch, with what the batch adds to them."""
        batch, (rows,) = element.batch, element.rows
        assert batch is not None, "keyed state is read over the input gates"
        segment = self._arrived[element.stage] = self._backend.adopt(batch, rows)
        segments = self._store.segments
        readings, release = self._store.held(lambda: [segments.reading(each) for each in segments.live])
        if readings:
            known = self._of_keys(self._backend.bounded(readings), segment)
            rows = gathered(known.unionAll(rows), [*readings, Reading(segment=segment)])
        return Output(rows=(self._plan.results_of(rows),), updates_state=True, on_emitted=release)

    def update_state(self, stage: int) -> None:
        """Add the batch of a stage to the state."""
        self._store.add(self._arrived.pop(stage))

    def _of_keys(self, state: DataFrame, segment: Segment[DataFrame]) -> DataFrame:
        """The rows of state whose keys a segment has."""
        names = {place: f"__of_batch_{place}" for place in range(len(self._plan.keys))}
        keys = segment.frame.select(*(key.alias(names[place]) for place, key in enumerate(self._plan.keys)))
        if segment.rows <= _BROADCAST_ROWS:
            keys = F.broadcast(keys)
        # Null is a key like any other.
        same = (key.eqNullSafe(F.col(names[place])) for place, key in enumerate(self._plan.keys))
        return state.join(keys, reduce(and_, same), "left_semi")
