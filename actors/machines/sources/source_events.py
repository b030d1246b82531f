"""Events and effects of a SourceCoordinator."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.ignore import Ignore
from flykka.messages.checkpointing.checkpoint import OperatorCoordinatorState
from flykka.messages.tasks.source import SourceSplit
from flykka.messages.wire.ids import JobVertexId, OperatorId

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesReset:
    """New readers begin, from the states of a checkpoint or, without any, from the beginning."""

    states: tuple[OperatorCoordinatorState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LookEnded:
    """A look at a source from `begun_at` to `position` brought these splits; `finished` when no look can bring more.

    `more` can be brought by the next look at once: `files_left` files. Nothing was there at the `missing_path`.
    """

    operator_id: OperatorId
    splits: tuple[SourceSplit, ...]
    finished: bool
    begun_at: bytes
    position: bytes
    more: bool = False
    files_left: int = 0
    missing_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LookFailed:
    """A look at a source failed; the next one is taken when new readers begin."""

    operator_id: OperatorId


@dataclass(frozen=True, slots=True, kw_only=True)
class LookDue:
    """It is time to look at a source again."""

    operator_id: OperatorId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderAsked:
    """An attempt of a subtask of this vertex can take `count` more splits."""

    operator_id: OperatorId
    vertex_id: JobVertexId
    subtask: int
    attempt_number: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """An attempt of a subtask is over, or ends."""

    vertex_id: JobVertexId
    subtask: int
    attempt_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReset:
    """One subtask alone restarts, from this checkpoint or, with None, from the beginning (Flink's subtaskReset).

    Said where only the region of a task that has failed restarts; where all of the job does, it is `SourcesReset`.
    """

    vertex_id: JobVertexId
    subtask: int
    checkpoint_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettled:
    """A subtask has acknowledged or declined the checkpoint."""

    vertex_id: JobVertexId
    subtask: int
    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAbandoned:
    """The checkpoint was aborted."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCommitted:
    """The checkpoint is complete."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWanted:
    """The checkpoint begins: what it is to hold of the sources."""

    checkpoint_id: int


SourceEvent = (
    SourcesReset
    | LookEnded
    | LookFailed
    | LookDue
    | ReaderAsked
    | AttemptEnded
    | TaskReset
    | TaskSettled
    | CheckpointAbandoned
    | CheckpointCommitted
    | SnapshotWanted
)


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class LookForSplits:
    """Look at the source for splits behind `position`."""

    operator_id: OperatorId
    position: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LookLater:
    """Report `LookDue` when the interval of this source has passed."""

    operator_id: OperatorId


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSplits:
    """Hand these splits to the reader of a subtask, in this order; the source had handed out `numbers` before each."""

    vertex_id: JobVertexId
    subtask: int
    operator_id: OperatorId
    splits: tuple[SourceSplit, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendNoMoreSplits:
    """Tell the reader of a subtask that it has got all it will get."""

    vertex_id: JobVertexId
    subtask: int
    operator_id: OperatorId


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesSnapshotted:
    """The states of the sources in a checkpoint."""

    checkpoint_id: int
    states: tuple[OperatorCoordinatorState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TellMissing:
    """Tell the user that nothing is at the `path` of a source, which is looked at again."""

    operator_id: OperatorId
    path: str


SourceEffect = LookForSplits | LookLater | SendSplits | SendNoMoreSplits | SourcesSnapshotted | TellMissing | Ignore
