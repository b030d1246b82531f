"""Running aggregates of each key, without windows (Flink SQL's GroupAggFunction).

State is partial aggregates by key, as they come; what is known of a key is the sum of its parts. Each batch emits, for
every key that it has, the aggregates of all rows so far: those parts of the state that are of its keys, and its own.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.actors.machines.state.segments import Reading, Segment, Segments
from flykka.spark_bridge.operators.keyed_store import KeyedOperator, KeyedStore
from flykka.spark_bridge.operators.operator import Element, Output
from flykka.spark_bridge.rows.materialise import Slices
from flykka.spark_bridge.state.spark_state_backend import SparkStateBackend, StateLayout, gathered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.spark_bridge.operators.bound_chain import OperatorContext
    from flykka.spark_bridge.operators.code import GroupAggregateCode

ACCUMULATORS = "accumulators"
"""The name of the state."""

_BROADCAST_ROWS = 1_000_000
"""Up to so many keys of a batch are sent to every partition of the state; else both are shuffled."""


class GroupAggregateOperator(KeyedOperator[Slices, "DataFrame"]):
    """The running aggregates of one attempt. It reads state that was made before the exchange."""

    def __init__(self, context: OperatorContext, code: GroupAggregateCode) -> None:
        self._plan = code.plan
        layout = StateLayout(code.plan)
        self._backend = SparkStateBackend(layout, context.descriptor, context.scope, context.services)
        self._store: KeyedStore[DataFrame] = KeyedStore(self._backend, Segments(), ACCUMULATORS)
        self._arrived: dict[int, Segment[DataFrame]] = {}
        super().__init__(context.operator_id, {ACCUMULATORS: self._store})

    @property
    def is_ordered(self) -> bool:
        """True: the rows that a batch emits depend on the batches before it."""
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
