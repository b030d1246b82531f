"""The ports to the data: what the actors ask of the side that holds the rows, of a job and of an attempt.

Spark's side implements them in `spark_bridge`; stand-ins in the tests of the actors do without Spark. Nothing in here
blocks an actor: what may block is a plain call that the shells run through `context.pipe_to_self`. And nothing in here
is asked for a decision in an actor's turn: what decides comes as a message, so that a recorded turn can be repeated
where there is no data plane. Only `bridge_props` is called in a turn, by a Task, and what `Engine` says does not block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from flykka.actors.checkpoint_coordinator.master_hooks import MasterTriggerRestoreHook
from flykka.actors.failure_enrichers import FailureContext
from flykka.messages.attempt import answers, commands
from flykka.messages.graph.job_graph import JobGraph, JobVertex, Operator
from flykka.messages.monitoring.exception_history import FailureLabel
from flykka.messages.tasks.operator_event import AggregateResult, AggregateUpdate, CoordinatorAnswer, CoordinatorCall
from flykka.messages.tasks.source import SplitsDiscovered
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId, ResultPartitionId
from flykka.runtime.dispatch.dispatcher import Executor
from flykka.runtime.props import Props


class SplitDiscovery(Protocol):
    """Looks for the splits of one source. One object per source operator and job; used by one call at a time."""

    interval_ms: int | None
    """Milliseconds between two discoveries; None where one finds everything."""

    changed: Callable[[], bool] | None
    """Tells if there may be more than the last discovery found, cheaply enough for many calls a second; or None."""

    def discover(self, position: bytes) -> SplitsDiscovered:
        """The splits behind `position` (empty: all), in the order in which they are to be read. May block.

        A position is the discovery's own and goes into checkpoints: it is small, and another object understands it.
        Raises whatever the storage raises; the job fails with it.
        """


class OperatorCoordinatorCalls(Protocol):
    """The user's coordinator of one operator. One object per operator and job; used by one call at a time."""

    def run(self, calls: Sequence[CoordinatorCall]) -> CoordinatorAnswer:
        """Make these calls, one after the other. May block.

        Raises `OperatorCoordinatorError`, which names the operator, where the user's code raises: the job fails.
        """


class GlobalAggregateFunctions(Protocol):
    """The functions and accumulators of the global aggregates of one job; used by one call at a time."""

    def update(self, updates: Sequence[AggregateUpdate]) -> tuple[AggregateResult, ...]:
        """Add values, in this order; the results of all that were added to. May block.

        Raises `GlobalAggregateError`, which names the aggregate, where the user's code raises; the job fails with it.
        """


class DataPlane(Protocol):
    """The port of a job runtime to its rows, which it moves without seeing one."""

    def check(self, job_graph: JobGraph) -> None:
        """Look before a job runs whether it can. May block.

        Raises `UnboundOperatorError`, naming the operators, where the graph does not fit the registered code, and what
        the data plane itself has against it, such as a sink that cannot write where it is to; the job is refused.
        """

    def own(self, job_graph: JobGraph) -> None:
        """Own the folders that the job writes to, unless that is so. May block for longer than a lease.

        Raises `JobOwnershipError` if another process owns one, or if this one cannot; the job is refused.
        """

    def confirm_owner(self, job_id: JobId) -> None:
        """Raise `OwnershipLostError` if another process has taken the job's folders over. May block."""

    def master_hooks(self, job_id: JobId) -> Sequence[MasterTriggerRestoreHook]:
        """The user's code that is run beside the coordinator of a job's checkpoints. May block."""

    def labels_failures(self, job_id: JobId) -> bool:
        """True if there is user code that labels the failures of a job. May block."""

    def label_failure(
        self, job_id: JobId, cause: SerializedThrowable, context: FailureContext
    ) -> tuple[FailureLabel, ...]:
        """Have the user's code label a failure. May block."""

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        """The props of an execution attempt's bridge actor; it is spawned as the Task's child and tells its parent."""

    def split_discovery(self, job_id: JobId, operator: Operator) -> SplitDiscovery:
        """The discovery of a source operator. May block, and raises as `SplitDiscovery.discover`."""

    def operator_coordinator(
        self, job_id: JobId, operator: Operator, parallelism: int, woken: Callable[[], object]
    ) -> OperatorCoordinatorCalls:
        """The coordinator of an operator that has one; the one before it of this job is closed. May block.

        `woken` may be called on any thread: there is something to be run by a call of `RunActions`.
        """

    def global_aggregates(self, job_id: JobId) -> GlobalAggregateFunctions:
        """The global aggregates of a job. May block."""

    def finalize_vertices(self, job_id: JobId, vertices: Sequence[JobVertex]) -> None:
        """Do what is to be done once when all tasks of a job have finished, before it is FINISHED. May block.

        Raises whatever the storage raises; the job fails with it, and where it is restarted this is called again.
        """

    def end_attempts(self, job_id: JobId) -> None:
        """End what still works for the job, killed attempts on their way out included. May block."""

    def release_partitions(self, job_id: JobId, partition_ids: Sequence[ResultPartitionId]) -> None:
        """Free what was kept in BLOCKING partitions of a job, whether anything was or not. May block."""

    def release_job(self, job_id: JobId, *, keep_staged: bool = False, keep_owner: bool = False) -> None:
        """Free everything that is left of the job in the data plane. May block; may be called again.

        `keep_staged`: what sinks have staged stays, because a retained checkpoint refers to it. `keep_owner`: this
        process runs the job again, and no other process may meanwhile.
        """


class WithoutOwners:
    """A part of data planes whose jobs write nowhere."""

    def own(self, job_graph: JobGraph) -> None:
        """There is no folder."""

    def confirm_owner(self, job_id: JobId) -> None:
        """No process can replace this one."""


class WithoutCoordinators:
    """A part of data planes whose operators have nothing on the JobMaster's side."""

    def operator_coordinator(
        self, job_id: JobId, operator: Operator, parallelism: int, woken: Callable[[], object]
    ) -> OperatorCoordinatorCalls:
        raise AssertionError(f"{operator.name} has no coordinator")

    def global_aggregates(self, job_id: JobId) -> GlobalAggregateFunctions:
        raise AssertionError(f"job {job_id} has no global aggregates")


class Engine(Protocol):
    """Moves the rows of one execution attempt, and keeps its state. The attempt's machine decides the commands.

    For each command there is the method of its name. Those that return an answer, or None if there is no result, may
    block, and raise whatever the data plane raises: they run on the executor of `lane`, those of one lane in the order
    in which they were begun. All others are called in the turns of the bridge.
    """

    outside_state: bool
    """True: an engine stands for the world outside, and is no part of what its bridge knows."""

    def lane(self, command: commands.Command, piece: int, what: str) -> Executor:
        """The executor of a command, which is piece of work number `piece`, and described by `what`."""

    def open_chain(self, command: commands.OpenChain) -> answers.ChainOpened:
        """Restore the state, commit what the checkpoint holds, and read the channel state back."""

    def read_splits(self, command: commands.ReadSplits) -> answers.StageResult:
        """Read splits as one batch, and take the rows through the chain. Two stages may be moved side by side."""

    def process_batch(self, command: commands.ProcessBatch) -> answers.StageResult:
        """Take a batch through the chain, as its reader. It is released with the stage: when its state is updated."""

    def update_state(self, command: commands.UpdateState) -> None:
        """Add what a stage has computed of its batch to the state."""

    def advance_watermark(self, command: commands.AdvanceWatermark) -> answers.StageResult:
        """Fire what the watermark fires, and take the results through the chain."""

    def advance_processing_time(self, command: commands.AdvanceProcessingTime) -> answers.StageResult:
        """Fire the timers that are due, and take the results through the chain."""

    def handle_operator_events(self, command: commands.HandleOperatorEvents) -> answers.StageResult:
        """Give the function at the head events of its coordinator, and take what it emits through the chain."""

    def snapshot_state(self, command: commands.SnapshotState) -> answers.StageResult:
        """Note the state as it is when the watermark of the command has fired."""

    def prepare_commit(self, command: commands.PrepareCommit) -> answers.CommitPrepared:
        """Stage the rows that fire with the checkpoint, and have the sinks prepare them and the rows staged before."""

    def write_snapshot(self, command: commands.WriteSnapshot) -> answers.SnapshotWritten:
        """Make the noted state durable."""

    def discard_snapshot(self, command: commands.DiscardSnapshot) -> None:
        """Release the noted state."""

    def hold_batches(self, command: commands.HoldBatches) -> None:
        """Add a holder to batches. Raises `UnknownBatchError` if one was released."""

    def write_channel_state(self, command: commands.WriteChannelState) -> answers.ChannelStateWritten:
        """Write the rows of batches, all parts or none."""

    def commit_checkpoint(self, command: commands.CommitCheckpoint) -> answers.CheckpointCommitted:
        """Publish what was prepared up to a checkpoint that is complete."""

    def close_chain(self, command: commands.CloseChain) -> answers.ChainClosed:
        """Wait until nothing of the attempt runs any more, and release the batches that it holds."""

    def progress(self) -> tuple[answers.WorkProgress, ...]:
        """The progress of the pieces of work of which it is known. May block."""

    def failed(self, command: commands.Command, what: str, raised: BaseException) -> answers.WorkFailed:
        """Describe work that has raised. The attempt may have to end even if the command is survivable."""

    def release_batches(self, command: commands.ReleaseBatches) -> None:
        """Release batches that a holder holds."""

    def cancel_work(self) -> None:
        """Begin nothing new, and end what runs."""

    def interrupt_work(self) -> None:
        """Interrupt what was cancelled and does not end."""

    def close(self) -> None:
        """Cancel the attempt, if it is not over: the bridge has ended in whatever way. Does not block."""
