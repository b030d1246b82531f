"""The engine of a simulated attempt, including its sinks. Does Spark's work with countable rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from random import Random
from typing import Any, TypeVar

from flykka.actors.errors import UnknownBatchError
from flykka.actors.machines.attempt.batches import OutputRoutes, address, first_holder, input_addresses, is_split
from flykka.actors.machines.attempt.channel_state import recovered_batch
from flykka.actors.machines.state.operator_state import Committables
from flykka.messages.attempt import commands
from flykka.messages.attempt.answers import (
    ChainClosed,
    ChainOpened,
    ChannelStateWritten,
    EngineFailed,
    StageResult,
    WorkFailed,
    WorkProgress,
)
from flykka.messages.attempt.commands import ChannelStateRead, Lane, StagedOutput, StageOutput
from flykka.messages.state.handles import ExclusiveStateHandle, PendingFile, StagingFolder
from flykka.messages.tasks.exchange import BatchRef
from flykka.messages.tasks.source import IndexRangeSplit
from flykka.messages.tasks.task import ResultPartitionDescriptor, TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId, OperatorId
from flykka.messages.wire.message import Value
from flykka.runtime.dispatch.dispatcher import Pipe
from flykka.simulation.environment import Environment
from flykka.simulation.held_rows import SimulatedKeyedFunction, join_operator
from flykka.simulation.operators import (
    Behaviour,
    Filter,
    Join,
    Map,
    Process,
    Sink,
    Source,
    Tag,
    Window,
)
from flykka.simulation.rows import Row, Rows, event_times, size_of, split_by_owner, within
from flykka.simulation.state import SimulatedPanes, SimulatedWindowState
from flykka.spark_bridge.operators.keyed_process import KeyedProcessOperator
from flykka.spark_bridge.operators.keyed_store import KeyedOperator
from flykka.spark_bridge.operators.operator import Element, Operator, Output
from flykka.spark_bridge.operators.operator_chain import BatchResult, OperatorChain
from flykka.spark_bridge.operators.sink import SinkOperator
from flykka.spark_bridge.operators.window import WindowAggregateOperator
from flykka.spark_bridge.program.sink_writer import SinkWriter, Staged
from flykka.spark_bridge.state.savepoint import out_of_savepoint

T = TypeVar("T")
_PACES = (0, 1, 1, 4)
"""Slowdown factors. Each attempt draws one of them, so that batches queue before slow attempts."""


class _SimulatedSource(Operator[Rows]):
    def __init__(self, operator_id: OperatorId, behaviour: Source) -> None:
        super().__init__(operator_id)
        self.behaviour = behaviour


class _Transform(Operator[Rows]):
    def __init__(self, operator_id: OperatorId, behaviour: Map | Filter | Tag) -> None:
        super().__init__(operator_id)
        self._behaviour = behaviour

    def process_batch(self, element: Element[Rows]) -> Output[Rows]:
        return Output(rows=self._behaviour.apply(element.rows))


def _operator(behaviour: Behaviour, operator_id: OperatorId, engine: SimulatedEngine) -> Operator[Rows]:
    descriptor, environment = engine.descriptor, engine.environment
    match behaviour:
        case Source():
            return _SimulatedSource(operator_id, behaviour)
        case Map() | Filter() | Tag():
            return _Transform(operator_id, behaviour)
        case Window(windows=windows):
            backend = SimulatedWindowState(behaviour, descriptor, environment)
            return WindowAggregateOperator(
                operator_id, windows, SimulatedPanes(behaviour, backend, environment), backend
            )
        case Process():
            function = SimulatedKeyedFunction(behaviour, descriptor, environment)
            return KeyedProcessOperator(operator_id, function, function.backend)
        case Join():
            return join_operator(operator_id, behaviour, descriptor, environment)
        case Sink():
            writer = SimulatedSinkWriter(behaviour, descriptor, environment)
            return SinkOperator(operator_id, writer, writer.stage, environment, descriptor.attempt)


class SimulatedEngine(OperatorChain[Rows]):
    """Implements `Engine`. Refusals of the storage raise `OSError`, released batches `UnknownBatchError`."""

    outside_state = True

    def __init__(
        self, descriptor: TaskDeploymentDescriptor, environment: Environment, report: Callable[[EngineFailed], object]
    ) -> None:
        self.environment = environment
        self.descriptor = descriptor
        self._report = report
        self._batches = environment.batches_of(descriptor.job_id)
        self._lanes = Lanes(descriptor.attempt, descriptor.vertex.vertex_id, environment)
        super().__init__(
            descriptor,
            {
                each.operator_id: _operator(environment.program[each.ref.uid], each.operator_id, self)
                for each in descriptor.vertex.operators
            },
        )
        self._flow = SimulatedFlow(descriptor, environment, self.operators)
        self._is_cancelled = False
        self._has_ended = False
        self._others = environment.attempts.setdefault(descriptor.job_id, [])
        self._others.append(self)

    def lane(self, command: commands.Command, piece: int, what: str) -> OnLane:
        return OnLane(self._lanes, self.lane_of(command))

    def open_chain(self, command: commands.OpenChain) -> ChainOpened:
        self._replace_predecessors()
        self.restore(command.restore)
        if isinstance(self.head, KeyedOperator):
            self.head.read_restored()
        return self.opened(command.recover)

    def _replace_predecessors(self) -> None:
        mine = (self.descriptor.vertex.vertex_id, self.descriptor.subtask)
        for other in self._others[: self._others.index(self)]:
            if (other.descriptor.vertex.vertex_id, other.descriptor.subtask) == mine:
                other.revoke(f"{self.descriptor.attempt} takes its place")
                self._batches.release_produced(other.descriptor.attempt)

    def read_splits(self, command: commands.ReadSplits) -> StageResult:
        source = self.head
        assert isinstance(source, _SimulatedSource), "the operator is not a source, so it cannot read splits"
        ranges = [split for split in command.splits if isinstance(split, IndexRangeSplit)]
        rows = tuple(row for each in ranges for row in source.behaviour.read(each.start, each.rows))
        times = event_times(rows)
        result = self.emit(source, Output(rows=rows), command.stage)
        latest_ms = None if times is None else times[1]
        return self.result(command.stage, result, rows_in=len(rows), event_time_max=latest_ms)

    def emit(self, operator: Operator[Rows], output: Output[Rows], stage: int, read: Rows | None = None) -> BatchResult:
        return self._flow.emit(operator.operator_id, output, stage)

    def claim(self, batches: Sequence[BatchRef]) -> Rows:
        attempt = self.descriptor.attempt
        return tuple(row for each in batches for row in self._batches.claim(each.batch_id, attempt))

    def delete_from_savepoint(self, savepoint: str) -> None:
        files, below = self.environment.storage.files, f"{self.environment.path(savepoint)}/{self.descriptor.attempt}-"
        for path in [path for path in files if path.startswith(below)]:
            del files[path]

    def hold_batches(self, command: commands.HoldBatches) -> None:
        self._batches.hold(command.batch_ids, command.holder)

    def release_batches(self, command: commands.ReleaseBatches) -> None:
        if command.batch_ids is None:
            self._batches.release_held_by(command.holder)
        else:
            self._batches.release(command.batch_ids, command.holder)

    def write_channel_state(self, command: commands.WriteChannelState) -> ChannelStateWritten:
        """Write the rows of batches, one file per part of the channel state."""
        handles: list[ExclusiveStateHandle] = []
        try:
            for part in command.parts:
                # If a reader finished before the batch was held, the batch is released, and the checkpoint is
                # declined.
                rows = tuple(row for batch in part.batches for row in self._batches.rows(batch.batch_id))
                self.environment.storage.write(self.environment.path(part.path), rows)
                handles.append(ExclusiveStateHandle(path=part.path, size_bytes=size_of(rows)))
        except Exception:
            for handle in handles:
                self.environment.storage.files.pop(self.environment.path(handle.path), None)
            raise
        return ChannelStateWritten(checkpoint_id=command.checkpoint_id, folders=tuple(handles))

    def recover(self, read: ChannelStateRead) -> BatchRef | None:
        rows = self.environment.storage.read_rows(self.environment.path(read.in_flight.path))
        if read.key_groups is not None:
            rows = within(rows, read.key_groups, self.descriptor.vertex.max_parallelism)
        if not rows:
            return None
        batch = recovered_batch(read, len(rows), size_of(rows))
        goes_to = None if read.output is None else address(self.descriptor.outputs[read.output], read.subpartition)
        self._batches.put(batch, rows, producer=self.descriptor.attempt, address=goes_to)
        return batch

    def progress(self) -> tuple[WorkProgress, ...]:
        return ()

    def failed(self, command: commands.Command, what: str, raised: BaseException) -> WorkFailed:
        """Return failures caused by the storage or by released batches. Other errors are raised and end the bridge."""
        if not isinstance(raised, OSError | UnknownBatchError):
            raise raised
        cause = SerializedThrowable(type_name=type(raised).__name__, message=str(raised))
        return WorkFailed(command=command, cause=cause, ends_attempt=not command.survivable)

    def cancel_work(self) -> None:
        self._is_cancelled = True
        self._lanes.are_closed = True

    def interrupt_work(self) -> None: ...

    def close_chain(self, command: commands.CloseChain) -> ChainClosed:
        self._end()
        return ChainClosed()

    def close(self) -> None:
        self._is_cancelled = True
        self._end()

    def revoke(self, why: str) -> None:
        if not self._has_ended:
            self._report(EngineFailed(cause=SerializedThrowable(type_name="AttemptReplacedError", message=why)))
            self.close()

    def _end(self) -> None:
        """End the engine. Later calls have no effect, so a finished attempt keeps its results."""
        if self._has_ended:
            return
        self._has_ended = self._lanes.are_closed = True
        self._batches.release_attempt(
            self.descriptor.attempt, input_addresses(self.descriptor), is_cancelled=self._is_cancelled
        )


class SimulatedFlow:
    def __init__(
        self,
        descriptor: TaskDeploymentDescriptor,
        environment: Environment,
        operators: Mapping[OperatorId, Operator[Rows]],
    ) -> None:
        self._descriptor = descriptor
        self._batches = environment.batches_of(descriptor.job_id)
        self._operators = operators
        self._routes = OutputRoutes(descriptor, lambda seed: Random(seed).randrange)

    def emit(self, operator_id: OperatorId, output: Output[Rows], stage: int) -> BatchResult:
        """Pass the output to all readers of the operator."""
        vertex, result, rows = self._descriptor.vertex, BatchResult(), output.rows
        if output.staged:
            staged = StagedOutput(operator_id=operator_id, names=output.staged, rows=output.staged_rows)
            result += BatchResult(staged=(staged,))
        if not rows:
            return result
        for each in self._descriptor.outputs:
            if vertex.outputs[each.output] == operator_id:
                result += self._send(each, rows, stage)
        for reader in vertex.operators:
            if reader.input_operator is not None and vertex.operators[reader.input_operator].operator_id == operator_id:
                processed = self._operators[reader.operator_id].process_batch(Element(rows=rows, stage=stage))
                result += self.emit(reader.operator_id, processed, stage)
        return result

    def _send(self, output: ResultPartitionDescriptor, rows: Rows, stage: int) -> BatchResult:
        parts: dict[int, Sequence[Row]]
        if is_split(output):
            parts = {**split_by_owner(rows, output.max_parallelism, output.subpartitions)}
        else:
            parts = dict.fromkeys(self._routes.receivers(output), rows)
        batches = (self._batch(output, subpartition, tuple(part), stage) for subpartition, part in parts.items())
        outputs = tuple(batches)
        return BatchResult(outputs=outputs, rows=sum(each.batch.rows for each in outputs))

    def _batch(self, output: ResultPartitionDescriptor, subpartition: int, rows: Rows, stage: int) -> StageOutput:
        times = event_times(rows)
        batch = BatchRef(
            batch_id=self._routes.batch_id(stage, output, subpartition),
            rows=len(rows),
            size_bytes=size_of(rows),
            event_time_min=None if times is None else times[0],
            event_time_max=None if times is None else times[1],
            subpartition=subpartition,
        )
        goes_to, holder = address(output, subpartition), first_holder(output)
        self._batches.put(batch, rows, producer=self._descriptor.attempt, address=goes_to, holder=holder)
        return StageOutput(output=output.output, batch=batch)


class Lanes:
    """The lanes of one attempt, which simulate how long Spark's threads would work.

    Each duration is drawn from the attempt's own random numbers. Work in one lane completes in start order, and no work
    of an ended attempt completes.
    """

    def __init__(self, attempt: ExecutionAttemptId, vertex_id: JobVertexId, environment: Environment) -> None:
        self._vertex_id = vertex_id
        self._environment = environment
        self._random = Random(f"{environment.name}/{attempt}")
        self._pace = self._random.choice(_PACES)
        self._due_ms: dict[Lane, int] = {}
        self.are_closed = False

    def run(self, lane: Lane, work: Pipe[Any]) -> None:
        if lane in (Lane.AT_ONCE, Lane.END):
            work.run()
            return
        takes_ms = self._pace * self._random.choice(self._environment.stage_ms)
        if lane is Lane.STAGES:
            takes_ms += self._environment.faults.delay_ms(self._vertex_id)
            work = work.with_work(partial(self._as_stage, work.work))
        clock = work.cell.system.clock
        due_ms = self._due_ms[lane] = max(self._due_ms.get(lane, 0), clock.now_ms() + takes_ms)
        clock.schedule(due_ms, partial(self._end, work))

    def _end(self, work: Pipe[Any]) -> None:
        if not self.are_closed:
            work.run()

    def _as_stage(self, work: Callable[[], T]) -> T:
        if self._environment.faults.stage_fails(self._vertex_id):
            raise OSError("the stage failed, as planned by the simulation")
        return work()


@dataclass(frozen=True, slots=True)
class OnLane:
    lanes: Lanes
    lane: Lane

    def run_blocking(self, work: Pipe[Any]) -> None:
        self.lanes.run(self.lane, work)


class SimulatedSinkWriter(SinkWriter[Rows]):
    """Files that one attempt has staged and not yet published, in the two phases of the file sink.

    `<root>/staging/<job>/<sink>-<subtask>/<attempt>-<n>` is private. `<root>/output/<sink>/...` is public.
    """

    def __init__(self, behaviour: Sink, descriptor: TaskDeploymentDescriptor, environment: Environment) -> None:
        self._environment = environment
        self._attempt = descriptor.attempt
        self._folder = f"{environment.root}/staging/{descriptor.job_id}/{behaviour.name}-{descriptor.subtask}"
        self._output = f"{environment.root}/output/{behaviour.name}"
        self._numbers = count()
        self._committables: Committables[PendingFile] = Committables()
        self._inherited: frozenset[str] = frozenset()

    def stage(self, rows: Rows) -> Staged:
        if not rows:
            return Staged(rows=0)
        path = f"{self._folder}/{self._attempt}-{next(self._numbers)}"
        self._environment.storage.write(self._environment.path(path), rows)
        return Staged(rows=len(rows), names=(path,))

    def prepare_commit(self, checkpoint_id: int, names: Sequence[str]) -> tuple[Value, ...]:
        """Assign final names to output staged before a barrier. Returns the state for this and later checkpoints."""
        self._committables.pending += tuple(
            PendingFile(
                checkpoint_id=checkpoint_id,
                staged=path,
                target=f"{self._output}/{path.rsplit('/', 1)[-1]}-{checkpoint_id}",
            )
            for path in names
        )
        folders = (self._folder, *sorted(self._inherited))
        return (*self._committables.pending, *(StagingFolder(path=path) for path in folders))

    def commit(self, checkpoint_id: int) -> tuple[str, ...]:
        """Publish the output of a complete checkpoint. Returns the files."""
        due = self._committables.due(checkpoint_id)
        for file in due:
            self._environment.publish(file)
        self._committables.on_committed(checkpoint_id)
        self._environment.discard(sorted(self._inherited))
        self._inherited = frozenset()
        return tuple(file.target for file in due)

    def restore(self, prepared: Sequence[Value]) -> None:
        """Publish the output in the checkpoint, and discard other staged files of earlier attempts."""
        inherited: set[str] = set()
        for piece in out_of_savepoint(self._environment, prepared, self._folder):
            match piece:
                case PendingFile() as pending:
                    self._environment.publish(pending)
                case StagingFolder(path=path):
                    inherited.add(path)
                case _:
                    raise AssertionError(f"{piece} is not the state of a sink")
        self._environment.discard([self._folder])
        self._inherited = frozenset(inherited - {self._folder})
