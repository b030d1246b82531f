"""Functions of each row with keys: their code, and their operators on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from flykka.actors.machines.state.schema_evolution import operator_state_text
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.state.handles import StateSchema
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.spark_bridge.functions.function_runner import KeyedFunctionRunner
from flykka.spark_bridge.operators.emitted_rows import computed_once
from flykka.spark_bridge.operators.keyed_batch import KeyedResult
from flykka.spark_bridge.operators.keyed_process import KeyedProcessOperator, TimerFiring
from flykka.spark_bridge.operators.operator import Element, OperatorSnapshot, Output
from flykka.spark_bridge.operators.process import STATE_FIELD, FunctionSends, FunctionState, ProcessCode, function_spec
from flykka.spark_bridge.operators.spark_keyed_batches import SparkKeyedBatches, with_keys
from flykka.spark_bridge.program.applied import applied
from flykka.spark_bridge.rows.materialise import Slices
from flykka.spark_bridge.state.segment_files import StateRows
from flykka.spark_bridge.worker.keyed_function import FireTimers, ProcessKeyedRows
from flykka.spark_bridge.worker.listed_state import RemoveExpired
from flykka.spark_bridge.worker.process_rows import HandleCoordinatorEvents
from flykka.spark_bridge.worker.segment_file import CleanUp
from flykka.spark_bridge.worker.segments import CONTROL, CONTROL_TYPE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.messages.state.handles import OperatorSubtaskState
    from flykka.messages.tasks.operator_event import AggregateResult
    from flykka.spark_bridge.operators.code import OperatorContext
    from flykka.spark_bridge.operators.operator import Operator
    from flykka.spark_bridge.operators.spark_keyed_batches import Readings
    from flykka.spark_bridge.worker.function_spec import FunctionSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedProcessCode(ProcessCode):
    """A function with keyed state and timers. `keys` are those of the edge before it.

    `expiring_states` are the pickled descriptors of states with time-to-live, or None. `applied`, if set, is a function
    of DataFrames that is applied to the rows that the function emits for a batch.
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
        """Return the emitted rows, or the result of `applied` for them."""
        return emitted if self.applied is None else applied(self.applied, emitted)


class SparkKeyedProcessOperator(KeyedProcessOperator[Slices, StateRows]):
    """A function with keys, which may have a coordinator."""

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
    """A function with keys that has operator state of its subtask in addition to keyed state."""

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


class SparkKeyedFunction(SparkKeyedBatches):
    """Implements `KeyedFunction`."""

    def __init__(
        self, context: OperatorContext, code: KeyedProcessCode, state: FunctionState[KeyedFunctionRunner] | None = None
    ) -> None:
        """`state` is the operator state of the subtask, if the function has any."""
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
        """True with side outputs, and if a user's function may read the rows any number of times."""
        return self._is_applied or super().has_several_readers

    def results(self, emitted: DataFrame) -> DataFrame:
        with self._context.naming_failures():
            return super().results(emitted)

    @property
    def sees_watermarks(self) -> bool:
        return self.spec.sees_watermarks

    def clean_up(self) -> CleanUp | None:
        """Remove values that had expired by the time of the previous stage."""
        if self._expiring is None:
            return None
        watermark_ms, processing_time_ms = self._times
        return RemoveExpired(
            descriptors=self._expiring, watermark_ms=watermark_ms, processing_time_ms=processing_time_ms
        )

    def fired(self, firing: TimerFiring, readings: Readings, version: int) -> KeyedResult[Slices, StateRows]:
        """Fire timers in a worker."""
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
        """Handle events of the coordinator in a worker."""
        spec = self._spec_of_call()
        assert spec.call is not None, "events are handled in a call"
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
