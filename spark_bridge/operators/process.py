"""Process functions, called for each row with or without keys: their code, and their operators on Spark.

Follows Flink's ProcessOperator and KeyedProcessOperator.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, cast

from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType

from flykka.actors.machines.state.schema_evolution import operator_state_text, quoted
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.state.handles import StateSchema
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.messages.tasks.operator_event import AggregateUpdate, SentByFunction
from flykka.spark_bridge.functions.function_runner import KeyedFunctionRunner, ProcessFunctionRunner
from flykka.spark_bridge.functions.operator_states import Lists
from flykka.spark_bridge.functions.runtime_context import TaskInfo
from flykka.spark_bridge.operators.code import OperatorCode
from flykka.spark_bridge.operators.emitted_rows import computed_by_reader, computed_once, emitted_type
from flykka.spark_bridge.operators.keyed_batch import KeyedResult
from flykka.spark_bridge.operators.keyed_process import KeyedProcessOperator, TimerFiring
from flykka.spark_bridge.operators.operator import (
    Element,
    ListsAtBarriers,
    Operator,
    OperatorSnapshot,
    Output,
    restored_lists,
)
from flykka.spark_bridge.operators.spark_keyed_batches import SparkKeyedBatches, with_keys
from flykka.spark_bridge.program.applied import applied
from flykka.spark_bridge.rows.exact_names import exactly_named
from flykka.spark_bridge.rows.materialise import Slices, together
from flykka.spark_bridge.state.segment_files import StateRows
from flykka.spark_bridge.worker.function_spec import (
    OPERATOR_STATE,
    FunctionCall,
    FunctionSpec,
    R,
    Sends,
    SendsParam,
    SideColumn,
    SubtaskState,
)
from flykka.spark_bridge.worker.job_resources import on_executor
from flykka.spark_bridge.worker.keyed_function import FireTimers, ProcessKeyedRows
from flykka.spark_bridge.worker.listed_state import RemoveExpired
from flykka.spark_bridge.worker.process_rows import (
    HandleCoordinatorEvents,
    InitializeState,
    ProcessRows,
    ProcessWatermark,
)
from flykka.spark_bridge.worker.segment_file import CleanUp
from flykka.spark_bridge.worker.segments import CONTROL, CONTROL_TYPE
from flykka.spark_bridge.worker.time_columns import arrow_schema

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.accumulators import AccumulatorParam
    from pyspark.sql import Column, DataFrame

    from flykka.messages.state.handles import OperatorStateSchema, OperatorSubtaskState
    from flykka.messages.tasks.operator_event import AggregateResult
    from flykka.spark_bridge.functions.metric_group import MetricKind
    from flykka.spark_bridge.functions.operator_coordinator import CoordinatedFunction
    from flykka.spark_bridge.functions.state_descriptors import MapStateDescriptor
    from flykka.spark_bridge.operators.code import OperatorContext
    from flykka.spark_bridge.operators.spark_keyed_batches import Readings
    from flykka.spark_bridge.program.side_output import SideOutput
    from flykka.spark_bridge.worker.inputs import Inputs


STATE_FIELD = StructField(OPERATOR_STATE, BinaryType())


class FunctionState(Generic[R]):
    """The operator state of a function in Python workers. Each batch starts with the previous batch's state."""

    def __init__(self, context: OperatorContext, runner: type[R]) -> None:
        self._context = context
        self._runner: type[R] = runner
        self._state = SubtaskState(is_restored=context.descriptor.restored_checkpoint_id is not None)
        self.at_barriers = ListsAtBarriers(context.operator_id)

    @property
    def lists(self) -> Lists:
        return self._state.lists

    def of(self, spec: FunctionSpec) -> FunctionSpec:
        return replace(spec, operator_state=self._state)

    def restore(self, states: Sequence[OperatorSubtaskState]) -> None:
        self._state = replace(self._state, lists=restored_lists(states))

    def initialize(self, spec: FunctionSpec) -> None:
        """Restore the function's state in a worker, for checkpoints that precede the first row. Raises
        `OperatorFailedError` if the function has raised, or registers other states than the checkpoint contains.
        """
        with self._context.naming_failures("initializing the state of operator"):
            rows = self._context.scope.session.range(1).coalesce(1)
            states = rows.mapInArrow(
                InitializeState(spec=self.of(spec), runner=self._runner), StructType([STATE_FIELD])
            )
            (row,) = states.collect()
            self.update(row.asDict())

    def update(self, numbers: Mapping[str, Any]) -> None:
        self._state = SubtaskState(lists=pickle.loads(numbers[OPERATOR_STATE]), is_restored=True)


class FunctionSends:
    """Events and updates that functions of one attempt send. Two calls may run at the same time."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self._results: dict[str, bytes] = {}
        self._calls = 0

    @cached_property
    def _accumulator(self) -> Accumulator[Sends]:
        param = cast("AccumulatorParam[Sends]", SendsParam())
        return self._context.scope.session.sparkContext.accumulator({}, param)

    @cached_property
    def _pickled(self) -> bytes:
        return pickle.dumps(self._accumulator)

    def record_aggregates(self, results: tuple[AggregateResult, ...]) -> None:
        if results:
            # Replaced, not changed: running calls keep the old mapping.
            self._results = {**self._results, **{each.name: each.result for each in results}}

    def begin_call(self, spec: FunctionSpec) -> FunctionSpec:
        self._calls += 1
        call = FunctionCall(number=self._calls, accumulator=self._pickled, results=self._results)
        return replace(spec, call=call)

    def drain(self, spec: FunctionSpec) -> SentByFunction | None:
        """Return what was sent during a call since `begin_call`, after all rows of the call were computed."""
        assert spec.call is not None, "the function was called without a call number, so it cannot send events"
        number, sends = spec.call.number, self._accumulator.value
        parts = [sends.pop(place) for place in sorted(sends.copy()) if place[0] == number]
        if not parts:
            return None
        for part in parts:
            self._context.aggregates.bind(part.functions, self._context.link.description)
        updates = (AggregateUpdate(name=name, value=value) for part in parts for name, value in part.updates)
        return SentByFunction(
            operator_id=self._context.operator_id,
            events=tuple(event for part in parts for event in part.events),
            updates=tuple(updates),
        )


FunctionTask = ProcessRows | ProcessWatermark | HandleCoordinatorEvents[ProcessFunctionRunner]


class ProcessOperator(Operator[Slices]):
    """A function without keys. It is called for the rows of each Spark partition, in order."""

    report_columns: ClassVar[tuple[StructField, ...]] = ()
    """Additional columns in which workers report values to the driver."""

    def __init__(self, context: OperatorContext, code: ProcessCode) -> None:
        super().__init__(context.operator_id)
        self._context = context
        self._side = code.side
        self._sends = FunctionSends(context)
        self.spec = function_spec(context, code)
        self._emitted_type = emitted_type(code.emitted, code.side, self.report_columns)

    def process_batch(self, element: Element[Slices]) -> Output[Slices]:
        work = ProcessRows(
            spec=self._sends.begin_call(self.spec),
            watermark_ms=element.watermark_ms,
            processing_time_ms=element.processing_time_ms,
        )
        rows = together(element.rows).select(*map(quoted, self.spec.inputs.columns))
        return self._emitted(rows, work, f"stage-{element.stage}")

    def advance_watermark(self, watermark_ms: int, processing_time_ms: int) -> Output[Slices]:
        if watermark_ms == WATERMARK_MIN or not self.spec.sees_watermarks:
            return Output()
        work = ProcessWatermark(
            spec=self._sends.begin_call(self.spec), watermark_ms=watermark_ms, processing_time_ms=processing_time_ms
        )
        return self._emitted(self._context.scope.session.range(1), work, f"watermark-{watermark_ms}")

    def handle_operator_events(
        self, events: tuple[bytes, ...], watermark_ms: int, processing_time_ms: int
    ) -> Output[Slices]:
        spec = self._sends.begin_call(self.spec)
        assert spec.call is not None, "the events have no call number"
        work = HandleCoordinatorEvents(
            spec=spec,
            runner=ProcessFunctionRunner,
            events=events,
            watermark_ms=watermark_ms,
            processing_time_ms=processing_time_ms,
        )
        return self._emitted(self._context.scope.session.range(1), work, f"events-{spec.call.number}")

    def record_aggregates(self, results: tuple[AggregateResult, ...]) -> None:
        self._sends.record_aggregates(results)

    def on_report(self, numbers: Mapping[str, Any]) -> None:
        """Handle the workers' reports, after all rows were emitted."""

    def _emitted(self, rows: DataFrame, work: FunctionTask, name: str) -> Output[Slices]:
        processed = exactly_named(rows).mapInArrow(work, self._emitted_type)
        names = [field.name for field in self.report_columns]
        aggregates = {name: F.max(name) for name in names}
        emitted = (
            computed_once(self._context, processed, f"{self._context.descriptor.attempt}/{name}", aggregates)
            if self._side
            else computed_by_reader(processed, aggregates)
        )
        main, side = emitted.parted(self._side, others=names)
        return Output(
            rows=(main,),
            side=side,
            on_emitted=lambda: self.on_report(emitted.numbers()),
            sent=lambda: self._sends.drain(work.spec),
        )


def function_spec(context: OperatorContext, code: ProcessCode) -> FunctionSpec:
    """Return the function of one attempt, without operator state, which is added for each batch."""
    descriptor = context.descriptor
    vertex = descriptor.vertex
    return FunctionSpec(
        pickled=code.pickled,
        task=TaskInfo(
            uid=context.link.uid,
            task_name=vertex.name,
            index_of_this_subtask=descriptor.subtask,
            number_of_parallel_subtasks=vertex.parallelism,
            max_number_of_parallel_subtasks=vertex.max_parallelism,
            attempt_number=descriptor.attempt_number,
        ),
        subtask=f"{descriptor.job_id}/{context.link.uid}/{descriptor.subtask}",
        attempt=descriptor.attempt,
        inputs=code.inputs,
        emitted=arrow_schema(StructType(list(code.emitted))),
        side=tuple(SideColumn(tag=side.tag, name=side.column, schema=arrow_schema(side.columns)) for side in code.side),
        sees_watermarks=code.sees_watermarks,
        metrics={name: context.accumulator_of_metric(name, kind) for name, kind in code.metrics},
        broadcast_states=code.broadcast_states,
        resources=replace(context.resources, find=on_executor),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCode(OperatorCode):
    """A function that is called for each row of its `inputs`, and emits rows of `emitted` and of the side outputs that
    are read.

    `sees_watermarks` is set if the function overrides `process_watermark`. The operator state has `broadcast_states` in
    addition to the states that the function registers. `coordinated` is the program's function if it has a coordinator.
    """

    kind = OperatorKind.PROCESS
    is_head = True
    is_computed = True

    pickled: bytes = field(repr=False)
    inputs: Inputs
    emitted: tuple[StructField, ...]
    side: tuple[SideOutput, ...] = ()
    sees_watermarks: bool = False
    metrics: tuple[tuple[str, MetricKind], ...] = ()
    operator_state: tuple[OperatorStateSchema, ...] = ()
    broadcast_states: tuple[MapStateDescriptor, ...] = ()
    coordinated: CoordinatedFunction | None = None

    @property
    def has_coordinator(self) -> bool:
        return self.coordinated is not None

    @property
    def side_outputs(self) -> tuple[str, ...]:
        return tuple(side.tag for side in self.side)

    @property
    def state_schema(self) -> StateSchema | None:
        return StateSchema(operator_state=self.operator_state) if self.operator_state else None

    @property
    def fingerprint(self) -> str:
        return f"process({operator_state_text(self.operator_state)})" if self.operator_state else "process"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return (CheckpointedProcessOperator if self.operator_state else ProcessOperator)(context, self)


class CheckpointedProcessOperator(ProcessOperator):
    keeps_state = True
    report_columns = (STATE_FIELD,)

    def __init__(self, context: OperatorContext, code: ProcessCode) -> None:
        super().__init__(context, code)
        self._state = FunctionState(context, ProcessFunctionRunner)

    @property
    def is_ordered(self) -> bool:
        """Each batch starts with the state that the previous batch returned."""
        return True

    def restore(self, states: Sequence[OperatorSubtaskState]) -> None:
        self._state.restore(states)

    def open(self) -> None:
        self._state.initialize(self.spec)

    def snapshot_state(self, checkpoint_id: int, *, everything: bool) -> None:
        self._state.at_barriers.record(checkpoint_id, self._state.lists)

    def write_snapshot(self, checkpoint_id: int, savepoint: str | None) -> OperatorSnapshot:
        return self._state.at_barriers.write(checkpoint_id)

    def discard_snapshot(self, checkpoint_id: int) -> None:
        self._state.at_barriers.discard(checkpoint_id)

    def on_report(self, numbers: Mapping[str, Any]) -> None:
        self._state.update(numbers)

    def _emitted(self, rows: DataFrame, work: FunctionTask, name: str) -> Output[Slices]:
        return super()._emitted(rows.coalesce(1), replace(work, spec=self._state.of(work.spec)), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedProcessCode(ProcessCode):
    """A function with keyed state and timers. `keys` are the keys of the preceding edge.

    `expiring_states` are the pickled descriptors of states with time-to-live, or None. `applied`, if set, is a function
    of DataFrames that is applied to the rows emitted for a batch.
    """

    kind = OperatorKind.KEYED_PROCESS

    keys: tuple[Column | str, ...]
    key_fields: tuple[StructField, ...]
    state_fields: tuple[StructField, ...]
    state_schema: StateSchema
    expiring_states: bytes | None = field(default=None, repr=False)
    applied: Callable[[DataFrame], DataFrame] | None = None

    @property
    def fingerprint(self) -> str:
        keys = ", ".join(field.dataType.simpleString() for field in self.key_fields)
        lists = f"; {operator_state_text(self.operator_state)}" if self.operator_state else ""
        return f"keyed_process(keys: {keys}; state: {self.state_schema.columns}{lists})"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        if not self.operator_state:
            return SparkKeyedProcessOperator(context, SparkKeyedFunction(context, self))
        state = FunctionState(context, KeyedFunctionRunner)
        return CheckpointedKeyedProcessOperator(context, SparkKeyedFunction(context, self, state), state)

    def keyed(self, rows: DataFrame) -> DataFrame:
        return with_keys(rows, self.key_fields, self.keys)

    def results(self, emitted: DataFrame) -> DataFrame:
        return emitted if self.applied is None else applied(self.applied, emitted)


class SparkKeyedProcessOperator(KeyedProcessOperator[Slices, StateRows]):
    def __init__(self, context: OperatorContext, function: SparkKeyedFunction) -> None:
        super().__init__(context.operator_id, function, function.backend)
        self._spark_function = function

    def handle_operator_events(
        self, events: tuple[bytes, ...], watermark_ms: int, processing_time_ms: int
    ) -> Output[Slices]:
        return self._spark_function.handled(events, watermark_ms, processing_time_ms)

    def record_aggregates(self, results: tuple[AggregateResult, ...]) -> None:
        self._spark_function.sends.record_aggregates(results)


class CheckpointedKeyedProcessOperator(SparkKeyedProcessOperator):
    def __init__(
        self, context: OperatorContext, function: SparkKeyedFunction, state: FunctionState[KeyedFunctionRunner]
    ) -> None:
        super().__init__(context, function)
        self._state = state

    def restore(self, states: Sequence[OperatorSubtaskState]) -> None:
        super().restore(states)
        self._state.restore(states)

    def open(self) -> None:
        self._state.initialize(self._spark_function.spec)

    def snapshot_state(self, checkpoint_id: int, *, everything: bool) -> None:
        super().snapshot_state(checkpoint_id, everything=everything)
        self._state.at_barriers.record(checkpoint_id, self._state.lists)

    def write_snapshot(self, checkpoint_id: int, savepoint: str | None) -> OperatorSnapshot:
        lists, keyed = self._state.at_barriers.write(checkpoint_id), super().write_snapshot(checkpoint_id, savepoint)
        return OperatorSnapshot(
            state=replace(keyed.state, operator_state=lists.state.operator_state),
            incremental_bytes=keyed.incremental_bytes + lists.incremental_bytes,
        )

    def discard_snapshot(self, checkpoint_id: int) -> None:
        super().discard_snapshot(checkpoint_id)
        self._state.at_barriers.discard(checkpoint_id)


class SparkKeyedFunction(SparkKeyedBatches[ProcessKeyedRows | FireTimers]):
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
    def report_columns(self) -> tuple[StructField, ...]:
        return () if self._state is None else (STATE_FIELD,)

    def on_report(self, numbers: Mapping[str, Any]) -> None:
        if self._state is not None:
            self._state.update(numbers)

    @property
    def has_several_readers(self) -> bool:
        """True with side outputs, or if `applied` is set, since that function may read the rows repeatedly."""
        return self._is_applied or super().has_several_readers

    @property
    def has_plan_of_columns(self) -> bool:
        return not self._is_applied

    def results(self, emitted: DataFrame) -> DataFrame:
        with self._context.naming_failures():
            return super().results(emitted)

    @property
    def sees_watermarks(self) -> bool:
        return self.spec.sees_watermarks

    def clean_up(self) -> CleanUp | None:
        """The clean-up of values that had expired by the time of the previous stage."""
        if self._expiring is None:
            return None
        watermark_ms, processing_time_ms = self._times
        return RemoveExpired(
            descriptors=self._expiring, watermark_ms=watermark_ms, processing_time_ms=processing_time_ms
        )

    def fired(self, firing: TimerFiring, readings: Readings, version: int) -> KeyedResult[Slices, StateRows]:
        self._times = firing.watermark_ms, firing.processing_time_ms
        spec = self._spec_of_call()
        fire = FireTimers(
            spec=spec,
            domain=firing.domain,
            watermark_ms=firing.watermark_ms,
            processing_time_ms=firing.processing_time_ms,
        )
        return replace(self._fired(firing, fire, readings, version), sent=lambda: self.sends.drain(spec))

    def processed(self, element: Element[Slices], readings: Readings, version: int) -> KeyedResult[Slices, StateRows]:
        self._times = element.watermark_ms, element.processing_time_ms
        spec = self._called = self._spec_of_call()
        return replace(super().processed(element, readings, version), sent=lambda: self.sends.drain(spec))

    def handled(self, events: tuple[bytes, ...], watermark_ms: int, processing_time_ms: int) -> Output[Slices]:
        spec = self._spec_of_call()
        assert spec.call is not None, "the events have no call number"
        work = HandleCoordinatorEvents(
            spec=spec,
            runner=KeyedFunctionRunner,
            events=events,
            watermark_ms=watermark_ms,
            processing_time_ms=processing_time_ms,
            report_columns={CONTROL: CONTROL_TYPE},
        )
        name = f"{self._context.descriptor.attempt}/events-{spec.call.number}"
        rows = self._context.scope.session.range(1).coalesce(1).mapInArrow(work, self._emitted_type)
        aggregates = {each.name: F.max(each.name) for each in self.report_columns}
        emitted = computed_once(self._context, rows, name, aggregates)
        main, side = emitted.parted(self._code.side, others=[*aggregates, CONTROL])
        return Output(
            rows=(self.results(main),),
            side=side,
            on_emitted=lambda: self.on_report(emitted.numbers()),
            sent=lambda: self.sends.drain(spec),
        )

    def _processing(self, element: Element[Slices]) -> ProcessKeyedRows:
        return ProcessKeyedRows(
            spec=self._called, watermark_ms=element.watermark_ms, processing_time_ms=element.processing_time_ms
        )

    def _spec_of_call(self) -> FunctionSpec:
        spec = self.sends.begin_call(self.spec)
        return spec if self._state is None else self._state.of(spec)
