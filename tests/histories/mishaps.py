"""A data plane in which something goes wrong once: a snapshot, and later a stage."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.messages.tasks.stage import ReadSplits, SnapshotFailed, SnapshotState, StageFailed, StageFinished
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message
from flykka.runtime.props import Props
from tests.actors.cast import Bridge, Names, Sink

FAILING_CHECKPOINT = 2
FAILING_SPLIT = "file-4"


@dataclass
class Mishaps:
    """What has still to go wrong."""

    snapshot: bool = True
    stage: bool = True


class ClumsyBridge(Bridge):
    """That of a source fails as it is told to, and goes on as if nothing had been."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, sink: Sink, mishaps: Mishaps) -> None:
        super().__init__(descriptor, sink)
        self._mishaps = mishaps

    def _answers(self, message: Message) -> list[Message]:
        match message:
            case SnapshotState(stage=stage, checkpoint_id=checkpoint_id) if self._fails_snapshot(checkpoint_id):
                self._mishaps.snapshot = False
                failed = SnapshotFailed(checkpoint_id=checkpoint_id, cause=_cause("the disk is full"))
                return [StageFinished(stage=stage), failed]
            case ReadSplits(splits=splits) if self._mishaps.stage and splits[0].split_id == FAILING_SPLIT:
                self._mishaps.stage = False
                return [StageFailed(cause=_cause("the file cannot be read"))]
            case _:
                return super()._answers(message)

    def _fails_snapshot(self, checkpoint_id: int) -> bool:
        return self._is_source and self._mishaps.snapshot and checkpoint_id == FAILING_CHECKPOINT


class ClumsyNames(Names):
    """The data plane of these bridges."""

    def __init__(self) -> None:
        super().__init__()
        self.mishaps = Mishaps()

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        return Props(ClumsyBridge, descriptor, self.sink, self.mishaps)


def _cause(text: str) -> SerializedThrowable:
    return SerializedThrowable(type_name="OSError", message=text)
