"""Functions of each row with keyed state and timers (Flink's KeyedProcessOperator)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.spark_bridge.functions.current_key import TimeDomain
from flykka.spark_bridge.functions.runtime_context import TaskInfo
from flykka.spark_bridge.operators.keyed_batch import KeyedBatchOperator
from flykka.spark_bridge.operators.operator import Element, Output
from flykka.spark_bridge.rows.materialise import Slices
from flykka.spark_bridge.state.segment_files import SegmentFiles
from flykka.spark_bridge.worker.keyed_function import FireTimers, FunctionSpec, ProcessRows
from flykka.spark_bridge.worker.process_batch import ProcessDueKeys

if TYPE_CHECKING:
    from flykka.spark_bridge.operators.bound_chain import OperatorContext
    from flykka.spark_bridge.operators.code import KeyedProcessCode


class KeyedProcessOperator(KeyedBatchOperator):
    """Functions with timers, which fire with the watermark."""

    def __init__(self, context: OperatorContext, code: KeyedProcessCode) -> None:
        super().__init__(context, code)
        self._session = context.services.session
        self._fired_ms, self._fired_version = WATERMARK_MIN, 0
        self._next_timer_ms: int | None = None
        descriptor = context.descriptor
        vertex = descriptor.vertex
        self._spec = FunctionSpec(
            pickled=code.pickled,
            task=TaskInfo(
                uid=context.link.uid,
                task_name=vertex.name,
                index_of_this_subtask=descriptor.subtask,
                number_of_parallel_subtasks=vertex.parallelism,
                max_number_of_parallel_subtasks=vertex.max_parallelism,
                attempt_number=descriptor.attempt_number,
            ),
            subtask=f"{descriptor.job_id}/{vertex.vertex_id}/{descriptor.subtask}",
            attempt=descriptor.attempt,
            time_column=code.time_column,
            columns=code.columns,
            emitted=to_arrow_schema(StructType(list(code.emitted)), timezone="UTC"),
            side={},
        )

    def function(self, element: Element[Slices]) -> ProcessRows:
        """Call the function for every row of a batch."""
        return ProcessRows(spec=self._spec, watermark_ms=element.watermark_ms, processing_time_ms=0)

    def _timers(self, watermark_ms: int) -> FireTimers:
        return FireTimers(
            spec=self._spec, domain=TimeDomain.EVENT_TIME, watermark_ms=watermark_ms, processing_time_ms=0
        )

    def advance_watermark(self, watermark_ms: int) -> Output[Slices]:
        """Fire the timers that are due, up to `watermark_ms`."""
        if watermark_ms == WATERMARK_MIN or not self._has_due(watermark_ms):
            return Output()
        version = max(segment.version for segment in self.store.segments.live)
        due = partial(ProcessDueKeys, due_ms=watermark_ms, after_ms=self._fired_ms, after_version=self._fired_version)
        made = self.made(self._session.range(1), due, self._timers(watermark_ms))

        def on_emitted() -> None:
            segment, told = made.segment()
            self._fired_ms, self._fired_version = watermark_ms, version
            self._next_timer_ms = told.next_timer_ms
            self.store.add(segment)

        return Output(rows=(made.rows,), on_emitted=on_emitted)

    def _has_due(self, watermark_ms: int) -> bool:
        """Tell whether a timer may be due: one that was seen when the last ones fired, or was registered since."""
        timers = [self._next_timer_ms]
        for segment in self.store.segments.live:
            assert isinstance(segment.frame, SegmentFiles), "segments lie in files"
            if segment.version > self._fired_version:
                timers.append(segment.frame.first_timer_ms)
        return any(timer is not None and timer <= watermark_ms for timer in timers)
