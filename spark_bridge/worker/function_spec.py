"""A user's function as it is sent to Python workers, and what it returns: rows, state, and events for the driver.

Events go to a Spark accumulator, by call and partition. A Spark task that runs again sends its events again for the
same partition, and they replace the earlier events. So every event counts once, however often its partition is
computed.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import pyarrow as pa
from pyspark import TaskContext, cloudpickle

from flykka.spark_bridge.errors import FunctionError
from flykka.spark_bridge.functions.emission import Emitted
from flykka.spark_bridge.functions.error_texts import add_note
from flykka.spark_bridge.functions.function_runner import KeyedFunctionRunner, ProcessFunctionRunner
from flykka.spark_bridge.functions.job_resources import NO_RESOURCES, JobResources
from flykka.spark_bridge.functions.metric_group import MetricSample
from flykka.spark_bridge.functions.operator_event_gateway import Sent
from flykka.spark_bridge.functions.operator_states import Lists, OperatorStates
from flykka.spark_bridge.functions.runtime_context import TaskInfo
from flykka.spark_bridge.functions.state_descriptors import MapStateDescriptor
from flykka.spark_bridge.worker.inputs import Inputs
from flykka.spark_bridge.worker.rows import structs, table_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SentInPartition:
    """Events and values that a function has sent for a partition. The aggregates' functions are pickled."""

    events: tuple[bytes, ...]
    updates: tuple[tuple[str, bytes], ...]
    functions: Mapping[str, bytes]


Sends = dict[tuple[int, int], SentInPartition]
"""Sent events and values, by the number of the operator's call and by partition."""


class SendsParam:
    """Implements Spark's `AccumulatorParam`: the last value of each key wins."""

    def zero(self, value: Sends) -> Sends:
        return {}

    def addInPlace(self, value1: Sends, value2: Sends) -> Sends:
        value1.update(value2)
        return value1


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """A call of an operator in which its function may send events, with the current results of global aggregates.

    The accumulator is pickled, because every Spark task that unpickles an accumulator reports it, though few tasks send
    anything.
    """

    number: int
    accumulator: bytes
    results: Mapping[str, bytes]

    def report(self, sent: Sent | None) -> None:
        """Send events to the driver, which receives them when the task succeeds."""
        if sent is None:
            return
        context: Any = TaskContext.get()
        functions = {name: _pickled(function) for name, function in sent.functions.items()}
        report = SentInPartition(events=sent.events, updates=sent.updates, functions=functions)
        pickle.loads(self.accumulator).add({(self.number, context.partitionId()): report})


def _pickled(function: object) -> bytes:
    pickled: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    return pickled


R = TypeVar("R", KeyedFunctionRunner, ProcessFunctionRunner)


OPERATOR_STATE = "__flykka_operator_state"
"""The column in which a worker returns the pickled operator state."""

_opened: dict[str, tuple[str, Any]] = {}
"""The functions that this process has opened, with their attempts, by subtask."""


class SampleAccumulator(Protocol):
    def add_sample(self, sample: MetricSample) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SideColumn:
    """A side output: the id of its tag, its columns, and the column of the worker's output that contains its rows."""

    tag: str
    name: str
    schema: pa.Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskState:
    """The operator state at the start of a batch. `is_restored` is true if there was state before."""

    lists: Lists = ()
    is_restored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSpec:
    """A pickled function, with the inputs that it reads and the columns that it emits.

    `operator_state` is set for a `CheckpointedFunction` with state, or with `broadcast_states`. Events are sent for the
    `call` of its operator.
    """

    pickled: bytes = field(repr=False)
    task: TaskInfo
    subtask: str
    attempt: str
    inputs: Inputs
    emitted: pa.Schema
    side: tuple[SideColumn, ...]
    sees_watermarks: bool
    metrics: Mapping[str, SampleAccumulator]
    broadcast_states: tuple[MapStateDescriptor, ...] = ()
    operator_state: SubtaskState | None = None
    resources: JobResources = NO_RESOURCES
    call: FunctionCall | None = None

    @contextmanager
    def running(self, kind: type[R]) -> Iterator[R]:
        """Run the function for a batch. Afterwards its `lists` are the operator state.

        The attempt's first batch in this process opens the function. It is opened again if another process has run
        batches in the meantime, which changes the operator state. If a batch fails, the function is closed.
        """
        attempt, runner = _opened.pop(self.subtask, (self.attempt, None))
        state = SubtaskState() if self.operator_state is None else self.operator_state
        if runner is not None and (attempt, runner.lists) != (self.attempt, state.lists):
            runner.close()
            runner = None
        begun: R = self._new_runner(kind, state) if runner is None else runner
        with _closed_if_failing(begun):
            if runner is None:
                begun.open()
            begun.gateway.begin_batch(self.call.results if self.call is not None else {})
            yield begun
            if self.operator_state is not None:
                begun.snapshot_state()
            self._report(begun)
            if self.call is not None:
                self.call.report(begun.gateway.drain())
        _opened[self.subtask] = self.attempt, begun

    def _new_runner(self, kind: type[R], state: SubtaskState) -> R:
        return kind(
            cloudpickle.loads(self.pickled),
            self.task,
            columns=self.emitted.names,
            side_columns={side.tag: side.schema.names for side in self.side},
            operator_states=OperatorStates(state.lists, is_restored=state.is_restored),
            broadcast_states=self.broadcast_states,
            resources=self.resources,
        )

    def _report(self, runner: KeyedFunctionRunner | ProcessFunctionRunner) -> None:
        """Report the samples of the function's metrics. Raises `FunctionError` for a metric registered too late."""
        for sample in runner.drain_metrics():
            accumulator = self.metrics.get(sample.name)
            if accumulator is None:
                raise FunctionError(f"metric {sample.name!r} is registered too late: do it in open(runtime_context)")
            accumulator.add_sample(sample)

    def table(self, parts: Sequence[Emitted]) -> pa.Table:
        return table_of((row for part in parts for row in part.rows), self.emitted)

    def state_rows(self, runner: KeyedFunctionRunner | ProcessFunctionRunner | None) -> Mapping[str, pa.Array]:
        """Return the operator state after a batch as a single row, or no row without a runner.

        Without operator state there is no column.
        """
        if self.operator_state is None:
            return {}
        rows = [] if runner is None else [pickle.dumps(runner.lists)]
        return {OPERATOR_STATE: pa.array(rows, pa.binary())}

    def side_rows(self, parts: Sequence[Emitted]) -> Mapping[str, pa.StructArray]:
        return {
            side.name: structs(table_of((row for part in parts for row in part.side.get(side.tag, ())), side.schema))
            for side in self.side
        }


@contextmanager
def _closed_if_failing(runner: KeyedFunctionRunner | ProcessFunctionRunner) -> Iterator[None]:
    try:
        yield
    except BaseException as raised:
        try:
            runner.close()
        except Exception as also_raised:  # noqa: BLE001 - whatever the user's close raises
            add_note(raised, f"and then close() raised {also_raised!r}")
        raise
