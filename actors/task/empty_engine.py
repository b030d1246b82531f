"""An engine without rows: it completes every command at once as the protocol requires.

Recorded jobs, their forks, and benchmarks of the control plane use it. For each reader that needs a batch, a stage
returns a batch with the number of rows read. State is empty, and durable at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from flykka.actors.machines.attempt.batches import OutputRoutes, is_split
from flykka.messages.attempt import commands
from flykka.messages.attempt.answers import (
    ChainClosed,
    ChainOpened,
    ChannelStateWritten,
    CheckpointCommitted,
    CommitPrepared,
    SnapshotWritten,
    StageResult,
    WorkFailed,
    WorkProgress,
)
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.state.handles import ExclusiveStateHandle
from flykka.messages.tasks.exchange import BatchRef
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.runtime.dispatch.dispatcher import Executor, Pipe


class AtOnce:
    """Runs work in the calling thread, because the work does not block."""

    def run_blocking(self, work: Pipe[Any]) -> None:
        work.run()


_AT_ONCE = AtOnce()


class EmptyEngine:
    outside_state = True

    def __init__(self, descriptor: TaskDeploymentDescriptor) -> None:
        self._descriptor = descriptor
        operators = descriptor.vertex.operators
        self._sinks = [operator.operator_id for operator in operators if operator.kind is OperatorKind.SINK]
        self._routes = OutputRoutes(descriptor, lambda seed: Random(seed).randrange)

    def lane(self, command: commands.Command, piece: int, what: str) -> Executor:
        return _AT_ONCE

    def open_chain(self, command: commands.OpenChain) -> ChainOpened:
        """Open the chain. As in an engine with rows, only a sink has transactions to commit."""
        return ChainOpened(has_sinks=bool(self._sinks), recovered=(None,) * len(command.recover))

    def read_splits(self, command: commands.ReadSplits) -> StageResult:
        """Report as many rows as the splits specify."""
        return self._result(command.stage, sum(split.rows for split in command.splits))

    def process_batch(self, command: commands.ProcessBatch) -> StageResult:
        return self._result(command.stage, command.batch.rows)

    def update_state(self, command: commands.UpdateState) -> None: ...

    def advance_watermark(self, command: commands.AdvanceWatermark) -> StageResult:
        return StageResult(stage=command.stage)

    def advance_processing_time(self, command: commands.AdvanceProcessingTime) -> StageResult:
        return StageResult(stage=command.stage)

    def handle_operator_events(self, command: commands.HandleOperatorEvents) -> StageResult:
        return StageResult(stage=command.stage)

    def snapshot_state(self, command: commands.SnapshotState) -> StageResult:
        return StageResult(stage=command.stage)

    def prepare_commit(self, command: commands.PrepareCommit) -> CommitPrepared:
        return CommitPrepared(checkpoint_id=command.checkpoint_id)

    def write_snapshot(self, command: commands.WriteSnapshot) -> SnapshotWritten:
        return SnapshotWritten(checkpoint_id=command.checkpoint_id)

    def discard_snapshot(self, command: commands.DiscardSnapshot) -> None: ...

    def hold_batches(self, command: commands.HoldBatches) -> None: ...

    def write_channel_state(self, command: commands.WriteChannelState) -> ChannelStateWritten:
        folders = tuple(ExclusiveStateHandle(path=part.path, size_bytes=0) for part in command.parts)
        return ChannelStateWritten(checkpoint_id=command.checkpoint_id, folders=folders)

    def commit_checkpoint(self, command: commands.CommitCheckpoint) -> CheckpointCommitted:
        return CheckpointCommitted(checkpoint_id=command.checkpoint_id)

    def close_chain(self, command: commands.CloseChain) -> ChainClosed:
        return ChainClosed()

    def progress(self) -> tuple[WorkProgress, ...]:
        return ()

    def failed(self, command: commands.Command, what: str, raised: BaseException) -> WorkFailed:
        raise raised

    def release_batches(self, command: commands.ReleaseBatches) -> None: ...

    def cancel_work(self) -> None: ...

    def interrupt_work(self) -> None: ...

    def close(self) -> None: ...

    def _result(self, stage: int, rows: int) -> StageResult:
        outputs = tuple(self._outputs(stage, rows)) if rows else ()
        # The engine behaves as if each of its sinks published with each checkpoint.
        staged = tuple(
            commands.StagedOutput(operator_id=sink, names=(str(stage),), rows=rows) for sink in self._sinks if rows
        )
        return StageResult(stage=stage, outputs=outputs, staged=staged, rows_in=rows, rows_out=rows if outputs else 0)

    def _outputs(self, stage: int, rows: int) -> Iterator[commands.StageOutput]:
        for output in self._descriptor.outputs:
            if is_split(output):
                share, remainder = divmod(rows, output.subpartitions)
                parts = {each: share + (each < remainder) for each in range(output.subpartitions)}
            else:
                parts = dict.fromkeys(self._routes.receivers(output), rows)
            for subpartition, part in parts.items():
                name = self._routes.batch_id(stage, output, subpartition)
                batch = BatchRef(batch_id=name, rows=part, size_bytes=part, subpartition=subpartition)
                yield commands.StageOutput(output=output.output, batch=batch)
