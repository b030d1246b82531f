"""Processes the rows of keys with their state, a batch at a time (Flink's KeyedProcessOperator).

One Spark job does it: a Python worker looks up the state of the batch's keys in segments, processes the batch, writes
what has changed as a segment, and emits rows. The job is that of whatever reads these rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from flykka.actors.machines.state.segments import Segment, Segments
from flykka.spark_bridge.operators.keyed_store import KeyedOperator, KeyedStore
from flykka.spark_bridge.operators.operator import Element, Output
from flykka.spark_bridge.rows.materialise import Slices, counted, is_complete, numbers_of
from flykka.spark_bridge.rows.partitioning import KeyGroups
from flykka.spark_bridge.state.segment_files import FileStateBackend, StateRows
from flykka.spark_bridge.worker.process_batch import ProcessBatch
from flykka.spark_bridge.worker.segment_file import POSITION
from flykka.spark_bridge.worker.segments import CONTROL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

    from flykka.spark_bridge.operators.bound_chain import OperatorContext
    from flykka.spark_bridge.operators.code import KeyedCode

STATE = "keyed"
"""The name of the state."""


class KeyedProcessOperator(KeyedOperator[Slices, StateRows]):
    """The keyed functions of one attempt."""

    def __init__(self, context: OperatorContext, code: KeyedCode) -> None:
        self._code = code
        self._backend = FileStateBackend(
            code.key_fields, code.state_fields, context.descriptor, context.scope, context.services
        )
        self._store: KeyedStore[StateRows] = KeyedStore(self._backend, Segments(), STATE)
        self._groups = KeyGroups(
            keys=tuple(F.col(field.name) for field in code.key_fields),
            max_parallelism=context.descriptor.vertex.max_parallelism,
        )
        self._emitted_type = StructType([*code.emitted, StructField(CONTROL, ArrayType(LongType()))])
        self._arrived: dict[int, Segment[StateRows] | None] = {}
        super().__init__(context.operator_id, {STATE: self._store})

    @property
    def is_ordered(self) -> bool:
        """True: what is made of a batch depends on the batches before it."""
        return True

    def process(self, element: Element[Slices]) -> Output[Slices]:
        """Emit what the function makes of a batch and of the state of its keys."""
        batch, (rows,) = element.batch, element.rows
        assert batch is not None, "keyed state is read over the input gates"
        segments = self._store.segments
        readings, release = self._store.held(lambda: [segments.reading(each) for each in segments.live])
        target, version = self._backend.new_name(), 1 + max((each.segment.version for each in readings), default=0)
        work = ProcessBatch(
            folder=self._backend.folder,
            segments=self._backend.read(readings).names,
            target=target,
            version=version,
            schema=self._backend.arrow_schema,
            function=self._code.function,
        )
        keyed = self._code.keyed(rows).withColumn(POSITION, self._groups.position())
        made = keyed.coalesce(1).mapInArrow(work, self._emitted_type)
        observation, observed = counted(made, {CONTROL: F.max(CONTROL)})

        def on_emitted() -> None:
            number, _ = _told(observation, observed)
            self._arrived[element.stage] = self._backend.written(target, number, version)
            release()

        emitted = observed.where(F.col(CONTROL).isNull()).drop(CONTROL)
        return Output(rows=(self._code.results(emitted),), updates_state=True, on_emitted=on_emitted)

    def update_state(self, stage: int) -> None:
        """Add to the state what a batch has changed."""
        self._store.add(self._arrived.pop(stage))


def _told(observation: Observation, rows: DataFrame) -> tuple[int, int]:
    """Return the number of rows that were written, and their version."""
    told: Any = numbers_of(observation).get(CONTROL) if is_complete(observation) else None
    if told is None:
        # What reads the rows has not wanted them all. The state wants them.
        ((told,),) = rows.agg(F.max(CONTROL)).collect()
    number, version = told
    return number, version
