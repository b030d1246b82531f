"""Events and effects of a SplitEnumerator."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.ignore import Ignore
from flykka.messages.tasks.source import SourceSplit

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsFound:
    """A look at the source from `begun_at` to `position` brought these; `finished` when no look brings more."""

    splits: tuple[SourceSplit, ...]
    finished: bool
    begun_at: bytes
    position: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsRequested:
    """The reader of this attempt of the subtask can take `count` more splits."""

    subtask: int
    attempt_number: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderEnded:
    """This attempt of the subtask is over, or ends."""

    subtask: int
    attempt_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskReset:
    """The next attempt of the subtask, and of it alone, begins from this checkpoint; None: from the beginning."""

    subtask: int
    checkpoint_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskSettled:
    """The subtask has acknowledged or declined the checkpoint: its barrier lies behind it, or will never come."""

    subtask: int
    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointGivenUp:
    """The checkpoint was aborted."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointConfirmed:
    """The checkpoint is complete: it holds what readers had got."""

    checkpoint_id: int


SplitEnumeratorEvent = (
    SplitsFound
    | SplitsRequested
    | ReaderEnded
    | SubtaskReset
    | SubtaskSettled
    | CheckpointGivenUp
    | CheckpointConfirmed
)


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignSplits:
    """Hand these splits to the reader, in this order; before each, so many had gone out as its number says."""

    subtask: int
    splits: tuple[SourceSplit, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalNoMoreSplits:
    """Tell the reader that it has got all it will get."""

    subtask: int


SplitEnumeratorEffect = AssignSplits | SignalNoMoreSplits | Ignore
