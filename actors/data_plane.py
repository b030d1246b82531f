"""The ports to the data plane: what actors may request from the component that holds the rows, per job and per attempt.

`spark_bridge` implements them with Spark; the tests of the actors use stand-ins without Spark. No call blocks an actor:
calls that may block run through `context.pipe_to_self`. No actor calls a port to make a decision: results arrive as
messages, so that a recorded turn can be replayed without a data plane. Only `bridge_props`, which a Task calls, and the
non-blocking calls of `Engine` run in an actor's turn.
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
    """Finds the splits of one source. Each source operator of a job has one object. Calls never overlap."""

    interval_ms: int | None
    """Milliseconds between two discoveries, or None if one discovery finds all splits."""

    changed: Callable[[], bool] | None
    """Returns True if there may be new splits. Called many times a second. None if the source cannot check this."""

    def discover(self, position: bytes) -> SplitsDiscovered:
        """Return the splits after `position` (empty: all), in the order in which they are to be read. May block.

        Only the discovery interprets a position. Positions are stored in checkpoints, so they are small, and another
        object can continue from them. Raises whatever the storage raises; the job then fails.
        """


class OperatorCoordinatorCalls(Protocol):
    """The user's coordinator of one operator. Each operator of a job has one object. Calls never overlap."""

    def run(self, calls: Sequence[CoordinatorCall]) -> CoordinatorAnswer:
        """Run the calls in order. May block.

        If the user's code raises, raises `OperatorCoordinatorError`, which names the operator. The job then fails.
        """


class GlobalAggregateFunctions(Protocol):
    """The functions and accumulators of the global aggregates of one job. Calls never overlap."""

    def update(self, updates: Sequence[AggregateUpdate]) -> tuple[AggregateResult, ...]:
        """Add values in this order, and return the results of the updated aggregates. May block.

        If the user's code raises, raises `GlobalAggregateError`, which names the aggregate. The job then fails.
        """


class DataPlane(Protocol):
    """A job runtime's access to its rows. The runtime moves rows without reading them."""

    def check(self, job_graph: JobGraph) -> None:
        """Check that a job can run, before it starts. May block.

        Raises `UnboundOperatorError` if the graph does not fit the registered code, and other errors of the data plane,
        for example if a sink cannot write to its target. The job is then refused.
        """

    def own(self, job_graph: JobGraph) -> None:
        """Take ownership of the folders to which the job writes, unless already owned. May block for longer than a
        lease.

        Raises `JobOwnershipError` if another process owns a folder, or this process cannot own it. The job is then
        refused.
        """

    def confirm_owner(self, job_id: JobId) -> None:
        """Raise `OwnershipLostError` if another process has taken over the job's folders. May block."""

    def master_hooks(self, job_id: JobId) -> Sequence[MasterTriggerRestoreHook]:
        """Return the user's hooks of a job for its checkpoint coordinator. May block."""

    def labels_failures(self, job_id: JobId) -> bool:
        """Return whether user code labels the failures of the job. May block."""

    def label_failure(
        self, job_id: JobId, cause: SerializedThrowable, context: FailureContext
    ) -> tuple[FailureLabel, ...]:
        """Return the labels that user code assigns to a failure. May block."""

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        """Return the props of an attempt's bridge actor. The Task spawns it as a child and receives its messages."""

    def split_discovery(self, job_id: JobId, operator: Operator) -> SplitDiscovery:
        """Return the discovery of a source operator. May block. Raises the errors of `SplitDiscovery.discover`."""

    def operator_coordinator(
        self, job_id: JobId, operator: Operator, parallelism: int, woken: Callable[[], object]
    ) -> OperatorCoordinatorCalls:
        """Return the coordinator of an operator, closing the job's previous one. May block.

        `woken` may be called on any thread when the coordinator has actions to run by a call of `RunActions`.
        """

    def global_aggregates(self, job_id: JobId) -> GlobalAggregateFunctions: ...

    def finalize_vertices(self, job_id: JobId, vertices: Sequence[JobVertex]) -> None:
        """Finish the job's vertices, once all tasks have finished and before the job becomes FINISHED. May block.

        Raises whatever the storage raises. The job then fails. If it restarts, this method is called again.
        """

    def end_attempts(self, job_id: JobId) -> None:
        """End all work of the job, including that of killed attempts. May block."""

    def release_partitions(self, job_id: JobId, partition_ids: Sequence[ResultPartitionId]) -> None:
        """Free the rows of BLOCKING partitions of a job. May block."""

    def release_job(self, job_id: JobId, *, keep_staged: bool = False, keep_owner: bool = False) -> None:
        """Free everything of the job in the data plane. May block, and may be called again.

        With `keep_staged`, rows that sinks have staged stay, because a retained checkpoint refers to them. With
        `keep_owner`, this process keeps the job's folders, because it will run the job again.
        """


class WithoutOwners:
    def own(self, job_graph: JobGraph) -> None: ...

    def confirm_owner(self, job_id: JobId) -> None: ...


class WithoutCoordinators:
    def operator_coordinator(
        self, job_id: JobId, operator: Operator, parallelism: int, woken: Callable[[], object]
    ) -> OperatorCoordinatorCalls:
        raise AssertionError(f"{operator.name} has no coordinator")

    def global_aggregates(self, job_id: JobId) -> GlobalAggregateFunctions:
        raise AssertionError(f"job {job_id} has no global aggregates")


class Engine(Protocol):
    """Processes the rows of one execution attempt and holds its state. The attempt's state machine sends the commands.

    Each command has a method of the same name. Methods that return a result, or None, may block and raise what the data
    plane raises: they run on the executor of `lane`, in start order within a lane. All other methods are called in the
    bridge's turns.
    """

    outside_state: bool
    """True: an engine is outside of the actor system, so its state is not part of its bridge's state."""

    def lane(self, command: commands.Command, piece: int, what: str) -> Executor:
        """Return the executor of a command. `piece` is the id of the command's work, `what` its description."""

    def open_chain(self, command: commands.OpenChain) -> answers.ChainOpened:
        """Restore the state, commit pending transactions of the checkpoint, and read back the channel state."""

    def read_splits(self, command: commands.ReadSplits) -> answers.StageResult:
        """Read splits as one batch and process the rows in the chain. Two stages may run concurrently."""

    def process_batch(self, command: commands.ProcessBatch) -> answers.StageResult:
        """Process a batch in the chain. The stage holds the batch until its state is updated."""

    def update_state(self, command: commands.UpdateState) -> None: ...

    def advance_watermark(self, command: commands.AdvanceWatermark) -> answers.StageResult:
        """Fire the timers and windows that are due at the watermark, and process the emitted rows in the chain."""

    def advance_processing_time(self, command: commands.AdvanceProcessingTime) -> answers.StageResult:
        """Fire the processing-time timers that are due, and process the emitted rows in the chain."""

    def handle_operator_events(self, command: commands.HandleOperatorEvents) -> answers.StageResult:
        """Pass coordinator events to the function at the head of the chain, and process the emitted rows."""

    def snapshot_state(self, command: commands.SnapshotState) -> answers.StageResult:
        """Take a snapshot of the state after firing the watermark of the command."""

    def prepare_commit(self, command: commands.PrepareCommit) -> answers.CommitPrepared:
        """Stage the rows that the checkpoint fires, and let the sinks prepare all staged rows for commit."""

    def write_snapshot(self, command: commands.WriteSnapshot) -> answers.SnapshotWritten: ...

    def discard_snapshot(self, command: commands.DiscardSnapshot) -> None: ...

    def hold_batches(self, command: commands.HoldBatches) -> None:
        """Add a holder to batches. Raises `UnknownBatchError` if a batch was released."""

    def write_channel_state(self, command: commands.WriteChannelState) -> answers.ChannelStateWritten:
        """Write the rows of batches, either all or none."""

    def commit_checkpoint(self, command: commands.CommitCheckpoint) -> answers.CheckpointCommitted:
        """Publish the rows prepared up to a completed checkpoint."""

    def close_chain(self, command: commands.CloseChain) -> answers.ChainClosed:
        """Wait until all work of the attempt has ended, and release its batches."""

    def progress(self) -> tuple[answers.WorkProgress, ...]: ...

    def failed(self, command: commands.Command, what: str, raised: BaseException) -> answers.WorkFailed:
        """Describe a failed command. Even if the command is survivable, the failure may have to end the attempt."""

    def release_batches(self, command: commands.ReleaseBatches) -> None: ...

    def cancel_work(self) -> None: ...

    def interrupt_work(self) -> None:
        """Interrupt cancelled work that has not ended."""

    def close(self) -> None:
        """Cancel the attempt if it has not ended. Called when the bridge terminates for any reason. Does not block."""
