"""A data plane with two faults: one snapshot fails, and later one stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flykka.messages.attempt.answers import EngineFailed, SnapshotWritten, StageResult
from flykka.messages.attempt.commands import ReadSplits, WriteSnapshot
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from tests.actors.engines import NamesEngine, Sink
from tests.actors.whole_cluster import Names

FAILING_CHECKPOINT = 2
FAILING_SPLIT = "file-4"


@dataclass
class Faults:
    """The faults that are still to occur."""

    snapshot: bool = True
    stage: bool = True


class FaultyEngine(NamesEngine):
    """An engine whose source fails as configured, and then continues as if no failure had occurred."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, sink: Sink, faults: Faults) -> None:
        super().__init__(descriptor, sink)
        self._mishaps = faults

    def read_splits(self, command: ReadSplits) -> StageResult:
        if self._mishaps.stage and command.splits[0].split_id == FAILING_SPLIT:
            self._mishaps.stage = False
            raise OSError("the file cannot be read")
        return super().read_splits(command)

    def write_snapshot(self, command: WriteSnapshot) -> SnapshotWritten:
        if self._mishaps.snapshot and command.checkpoint_id == FAILING_CHECKPOINT and not self._descriptor.inputs:
            self._mishaps.snapshot = False
            raise OSError("the disk is full")
        return super().write_snapshot(command)


class FaultyNames(Names):
    def __init__(self) -> None:
        super().__init__()
        self.faults = Faults()

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> FaultyEngine:
        return FaultyEngine(descriptor, self.sink, self.faults)
