"""Processes keyed rows with the state of their keys, a batch at a time.

One Spark job does it: a Python worker looks up the state of the batch's keys in segments, processes the batch, writes
what has changed as a segment, and emits rows. The job is that of whatever reads these rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from flykka.actors.machines.state.segments import Segment, Segments
from flykka.spark_bridge.operators.emitted_rows import computed_by_reader, computed_once
from flykka.spark_bridge.operators.keyed_store import KeyedOperator, KeyedStore
from flykka.spark_bridge.operators.operator import Element, Output
from flykka.spark_bridge.rows.materialise import Slices
from flykka.spark_bridge.rows.partitioning import KeyGroups
from flykka.spark_bridge.state.segment_files import FileStateBackend, StateRows
from flykka.spark_bridge.worker.process_batch import BatchFunction, ProcessBatch
from flykka.spark_bridge.worker.segment_file import POSITION, CleanUp
from flykka.spark_bridge.worker.segments import CONTROL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.spark_bridge.operators.bound_chain import OperatorContext
    from flykka.spark_bridge.operators.code import KeyedCode

STATE = "keyed"
"""The name of the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A segment that was written, and the first timer in the segments before it that is not due."""

    segment: Segment[StateRows] | None
    next_timer_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Rows to emit, and those of side outputs; when they are emitted, it can be `told` what was written."""

    rows: DataFrame
    side: Mapping[str, Slices]
    told: Callable[[], Told]


class KeyedBatchOperator(KeyedOperator[Slices, StateRows], ABC):
    """Base of operators whose state is a row for each key."""

    def __init__(self, context: OperatorContext, code: KeyedCode) -> None:
        self._code = code
        self._context = context
        self._backend = FileStateBackend(
            code.key_fields,
            code.state_fields,
            context.descriptor,
            context.scope,
            context.services,
            clean_up=self.clean_up,
        )
        self.store: KeyedStore[StateRows] = KeyedStore(self._backend, Segments(), STATE)
        self._groups = KeyGroups(
            keys=tuple(F.col(field.name) for field in code.key_fields),
            max_parallelism=context.descriptor.vertex.max_parallelism,
        )
        self._emitted_type = StructType(
            [*code.emitted, *(side.field for side in code.side), StructField(CONTROL, ArrayType(LongType()))]
        )
        self._arrived: dict[int, Segment[StateRows] | None] = {}
        super().__init__(context.operator_id, {STATE: self.store})

    @abstractmethod
    def function(self, element: Element[Slices]) -> BatchFunction:
        """The function that a Python worker applies to a batch."""

    def clean_up(self) -> CleanUp | None:
        """Remove state that nobody needs any more, wherever segments are merged; None where there never is any."""
        return None

    @property
    def is_ordered(self) -> bool:
        """True: what is made of a batch depends on the batches before it."""
        return True

    def process(self, element: Element[Slices]) -> Output[Slices]:
        """Emit what the function makes of a batch and of the state of its keys."""
        assert element.batch is not None, "keyed state is read over the input gates"
        (rows,) = element.rows
        keyed = self._code.keyed(rows).withColumn(POSITION, self._groups.position())
        made = self.made(keyed, ProcessBatch, self.function(element))

        def on_emitted() -> None:
            self._arrived[element.stage] = made.told().segment

        return Output(rows=(made.rows,), side=made.side, updates_state=True, on_emitted=on_emitted)

    def update_state(self, stage: int) -> None:
        """Add to the state what a batch has changed."""
        self.store.add(self._arrived.pop(stage))

    def made(self, rows: DataFrame, work: Callable[..., ProcessBatch], function: BatchFunction) -> Made:
        """Let a worker apply a function, which begins as soon as the rows are read."""
        segments = self.store.segments
        readings, release = self.store.held(lambda: [segments.reading(each) for each in segments.live])
        target = self._backend.new_name()
        process = work(
            folder=self._backend.folder,
            segments=self._backend.read(readings).names,
            target=target,
            version=1 + max((each.segment.version for each in readings), default=0),
            schema=self._backend.arrow_schema,
            function=function,
        )
        processed = rows.coalesce(1).mapInArrow(process, self._emitted_type)
        wanted = {CONTROL: F.max(CONTROL)}
        # With side outputs there are several readers, and what is computed changes state.
        emitted = (
            computed_once(self._context, processed, target, wanted)
            if self._code.side
            else computed_by_reader(processed, wanted)
        )

        def told() -> Told:
            *numbers, next_timer_ms = emitted.numbers()[CONTROL]
            release()
            return Told(segment=self._backend.written(target, *numbers), next_timer_ms=next_timer_ms)

        main, side = emitted.parted(self._code.side, others=[CONTROL])
        return Made(rows=self._code.results(main), side=side, told=told)
