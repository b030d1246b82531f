"""Keyed batches on Spark: one job for each, that of whatever reads the rows that it emits.

A Python worker looks up the state of the batch's keys in segments, processes the batch, writes what has changed as a
segment, and emits rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructField

from flykka.actors.machines.state.segments import Reading
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.spark_bridge.functions.current_key import TimeDomain
from flykka.spark_bridge.functions.function_runner import KeyedFunctionRunner
from flykka.spark_bridge.operators.checkpointed_functions import (
    CheckpointedKeyedProcessOperator,
    SparkKeyedProcessOperator,
)
from flykka.spark_bridge.operators.emitted_rows import computed_by_reader, computed_once, emitted_type
from flykka.spark_bridge.operators.function_sends import FunctionSends
from flykka.spark_bridge.operators.function_specs import function_spec
from flykka.spark_bridge.operators.function_state import STATE_FIELD, FunctionState
from flykka.spark_bridge.operators.keyed_batch import KeyedBatchOperator, Made, Told
from flykka.spark_bridge.operators.keyed_process import Firing, KeyedProcessOperator
from flykka.spark_bridge.operators.operator import Element, Output
from flykka.spark_bridge.rows.exact_names import exactly_named
from flykka.spark_bridge.rows.materialise import Slices
from flykka.spark_bridge.rows.partitioning import KeyGroups
from flykka.spark_bridge.state.segment_files import FileStateBackend, StateRows
from flykka.spark_bridge.worker.keyed_function import FireTimers, ProcessKeyedRows
from flykka.spark_bridge.worker.listed_state import RemoveExpired
from flykka.spark_bridge.worker.parts import MergeParts
from flykka.spark_bridge.worker.process_batch import BatchFunction, ProcessBatch, ProcessDueKeys
from flykka.spark_bridge.worker.process_rows import HandleOperatorEvents
from flykka.spark_bridge.worker.segment_file import (
    NEXT_EVENT_TIMER,
    NEXT_PROCESSING_TIMER,
    POSITION,
    CleanUp,
)
from flykka.spark_bridge.worker.segments import CONTROL, CONTROL_TYPE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.spark_bridge.operators.bound_chain import OperatorContext
    from flykka.spark_bridge.operators.code import GroupAggregateCode
    from flykka.spark_bridge.operators.keyed_code import KeyedCode, TableCode, TimedTableCode
    from flykka.spark_bridge.operators.process_code import KeyedProcessCode
    from flykka.spark_bridge.worker.function_spec import FunctionSpec

Readings = Sequence[Reading[StateRows]]
_TIMERS = {TimeDomain.EVENT_TIME: NEXT_EVENT_TIMER, TimeDomain.PROCESSING_TIME: NEXT_PROCESSING_TIMER}


def group_aggregate_operator(
    context: OperatorContext, code: GroupAggregateCode
) -> KeyedBatchOperator[Slices, StateRows]:
    """Running aggregates of each key (Flink SQL's GroupAggFunction): the partial aggregates of a key are its state.

    Each batch emits, for every key that it has, the aggregates of all rows so far.
    """
    merge = MergeParts(functions=code.plan.merging)
    batches = SparkKeyedBatches(context, code, lambda _: merge)
    return KeyedBatchOperator(context.operator_id, batches, batches.backend)


def keyed_batch_operator(context: OperatorContext, code: TableCode) -> KeyedBatchOperator[Slices, StateRows]:
    batches = SparkKeyedTables(context, code)
    return KeyedBatchOperator(context.operator_id, batches, batches.backend)


def keyed_table_operator(context: OperatorContext, code: TimedTableCode) -> KeyedProcessOperator[Slices, StateRows]:
    """A function of all rows of a batch, and one of timers."""
    function = SparkTimedTables(context, code)
    return KeyedProcessOperator(context.operator_id, function, function.backend)


def keyed_process_operator(context: OperatorContext, code: KeyedProcessCode) -> KeyedProcessOperator[Slices, StateRows]:
    if not code.operator_state:
        return SparkKeyedProcessOperator(context, SparkKeyedFunction(context, code))
    state = FunctionState(context, KeyedFunctionRunner)
    return CheckpointedKeyedProcessOperator(context, SparkKeyedFunction(context, code, state), state)


class SparkKeyedBatches:
    """Implements `KeyedBatches`."""

    def __init__(
        self, context: OperatorContext, code: KeyedCode, function: Callable[[Element[Slices]], BatchFunction]
    ) -> None:
        """`function` makes what a worker applies to a batch."""
        self.backend = FileStateBackend(
            code.key_fields,
            code.state_fields,
            context.storage,
            context.in_background,
            clean_up=self.clean_up,
            state_schema=code.state_schema,
        )
        self._context = context
        self._code = code
        self._function = function
        self._told_in = (*self.told_in, StructField(CONTROL, ArrayType(LongType())))
        self._emitted_type = emitted_type(code.emitted, code.side, self._told_in)

    @cached_property
    def _groups(self) -> KeyGroups:
        # Columns are made in the JVM, and an operator is made in an actor's turn.
        keys = tuple(F.col(field.name) for field in self._code.key_fields)
        return KeyGroups(keys=keys, max_parallelism=self._context.descriptor.vertex.max_parallelism)

    @property
    def told_in(self) -> tuple[StructField, ...]:
        """Columns in which workers tell more than rows and the changes of state."""
        return ()

    def on_told(self, numbers: Mapping[str, Any]) -> None:
        """Take what workers have told in them."""

    @property
    def has_several_readers(self) -> bool:
        """True if what workers emit may be read several times."""
        return bool(self._code.side)

    @property
    def emits_with_batches(self) -> bool:
        """False if timers alone emit rows: then a batch is computed here, and by no reader."""
        return True

    def results(self, emitted: DataFrame) -> DataFrame:
        """The rows that leave the operator, of those that workers emit."""
        return self._code.results(emitted)

    def clean_up(self) -> CleanUp | None:
        """Remove state that nobody needs any more, wherever segments are merged; None where there never is any."""
        return None

    def processed(self, element: Element[Slices], readings: Readings, version: int) -> Made[Slices, StateRows]:
        assert element.batch is not None, "keyed state is read over the input gates"
        (rows,) = element.rows
        keyed = self._code.keyed(rows).withColumn(POSITION, self._groups.position())
        return self._worked(
            keyed, ProcessBatch, self._function(element), readings, version, emits=self.emits_with_batches
        )

    def _fired(
        self, firing: Firing, function: BatchFunction, readings: Readings, version: int
    ) -> Made[Slices, StateRows]:
        """Let a worker process the keys that may have timers which are due."""
        due = partial(
            ProcessDueKeys,
            timer=_TIMERS[firing.domain],
            due_ms=firing.due_ms,
            after_ms=firing.after_ms,
            after_version=firing.after_version,
        )
        return self._worked(self._context.scope.session.range(1), due, function, readings, version)

    def _worked(
        self,
        rows: DataFrame,
        work: Callable[..., ProcessBatch],
        function: BatchFunction,
        readings: Readings,
        version: int,
        *,
        emits: bool = True,
    ) -> Made[Slices, StateRows]:
        target = self.backend.new_name()
        process = work(
            folder=self.backend.folder,
            segments=self.backend.read(readings).names,
            target=target,
            version=version,
            schema=self.backend.arrow_schema,
            function=function,
        )
        processed = exactly_named(rows.coalesce(1)).mapInArrow(process, self._emitted_type)
        wanted = {field.name: F.max(field.name) for field in self._told_in}
        # What is computed changes state.
        emitted = (
            computed_once(self._context, processed, target, wanted)
            if self.has_several_readers or not emits
            else computed_by_reader(processed, wanted)
        )

        def told() -> Told[StateRows]:
            seen = emitted.numbers()
            *numbers, next_timer_ms, late_rows = seen[CONTROL]
            segment = self.backend.written(target, *numbers)
            self.on_told(seen)
            return Told(segment=segment, next_timer_ms=next_timer_ms, late_rows=late_rows)

        main, side = emitted.parted(self._code.side, others=list(wanted))
        return Made(rows=(self.results(main),) if emits else None, side=side, told=told)


class SparkKeyedTables(SparkKeyedBatches):
    """Batches of a function that is told the watermark."""

    def __init__(self, context: OperatorContext, code: TableCode) -> None:
        super().__init__(context, code, self._processing)
        self._table_code = code
        self._watermark_ms = WATERMARK_MIN

    def clean_up(self) -> CleanUp | None:
        """Remove what was not needed any more when the last batch came."""
        return self._table_code.clean_up(self._watermark_ms)

    def _processing(self, element: Element[Slices]) -> BatchFunction:
        self._watermark_ms = element.watermark_ms
        return self._table_code.function(element.watermark_ms)


class SparkTimedTables(SparkKeyedTables):
    """Implements `KeyedFunction`."""

    sees_watermarks = False

    def __init__(self, context: OperatorContext, code: TimedTableCode) -> None:
        super().__init__(context, code)
        self._timed_code = code

    @property
    def emits_with_batches(self) -> bool:
        return self._timed_code.emits_with_batches

    def fired(self, firing: Firing, readings: Readings, version: int) -> Made[Slices, StateRows]:
        return self._fired(firing, self._timed_code.firing(firing.due_ms), readings, version)


class SparkKeyedFunction(SparkKeyedBatches):
    """Implements `KeyedFunction`."""

    def __init__(
        self, context: OperatorContext, code: KeyedProcessCode, state: FunctionState[KeyedFunctionRunner] | None = None
    ) -> None:
        self._state = state
        self._is_applied = code.applied is not None
        super().__init__(context, code, self._processing)
        self.sends = FunctionSends(context)
        self.spec = function_spec(context, code)
        self._expiring = code.expiring_states
        self._times = (WATERMARK_MIN, 0)

    @property
    def told_in(self) -> tuple[StructField, ...]:
        return () if self._state is None else (STATE_FIELD,)

    def on_told(self, numbers: Mapping[str, Any]) -> None:
        """Go on with the state that the worker has given back."""
        if self._state is not None:
            self._state.take(numbers)

    @property
    def has_several_readers(self) -> bool:
        """True with side outputs, and where a function of the user's may read the rows as often as it likes."""
        return self._is_applied or super().has_several_readers

    def results(self, emitted: DataFrame) -> DataFrame:
        """The rows that leave the operator. Raises `OperatorFailedError` where a function of the user's does."""
        with self._context.naming_failures():
            return super().results(emitted)

    @property
    def sees_watermarks(self) -> bool:
        return self.spec.sees_watermarks

    def clean_up(self) -> CleanUp | None:
        """Remove values that have expired by the time of the stage before."""
        if self._expiring is None:
            return None
        watermark_ms, processing_time_ms = self._times
        return RemoveExpired(
            descriptors=self._expiring, watermark_ms=watermark_ms, processing_time_ms=processing_time_ms
        )

    def fired(self, firing: Firing, readings: Readings, version: int) -> Made[Slices, StateRows]:
        self._times = firing.watermark_ms, firing.processing_time_ms
        spec = self._spec_of_call()
        fire = FireTimers(
            spec=spec,
            domain=firing.domain,
            watermark_ms=firing.watermark_ms,
            processing_time_ms=firing.processing_time_ms,
        )
        return replace(self._fired(firing, fire, readings, version), sent=lambda: self.sends.take(spec))

    def processed(self, element: Element[Slices], readings: Readings, version: int) -> Made[Slices, StateRows]:
        self._times = element.watermark_ms, element.processing_time_ms
        spec = self._called = self._spec_of_call()
        return replace(super().processed(element, readings, version), sent=lambda: self.sends.take(spec))

    def handled(self, events: tuple[bytes, ...], watermark_ms: int, processing_time_ms: int) -> Output[Slices]:
        """Let a worker handle events of the coordinator."""
        spec = self._spec_of_call()
        assert spec.call is not None, "events are handled in a call"
        work = HandleOperatorEvents(
            spec=spec,
            runner=KeyedFunctionRunner,
            events=events,
            watermark_ms=watermark_ms,
            processing_time_ms=processing_time_ms,
            told={CONTROL: CONTROL_TYPE},
        )
        name = f"{self._context.descriptor.attempt}/events-{spec.call.number}"
        rows = self._context.scope.session.range(1).coalesce(1).mapInArrow(work, self._emitted_type)
        wanted = {each.name: F.max(each.name) for each in self.told_in}
        emitted = computed_once(self._context, rows, name, wanted)
        main, side = emitted.parted(self._code.side, others=[*wanted, CONTROL])
        return Output(
            rows=(self.results(main),),
            side=side,
            on_emitted=lambda: self.on_told(emitted.numbers()),
            sent=lambda: self.sends.take(spec),
        )

    def _processing(self, element: Element[Slices]) -> ProcessKeyedRows:
        return ProcessKeyedRows(
            spec=self._called, watermark_ms=element.watermark_ms, processing_time_ms=element.processing_time_ms
        )

    def _spec_of_call(self) -> FunctionSpec:
        spec = self.sends.begin(self.spec)
        return spec if self._state is None else self._state.of(spec)
