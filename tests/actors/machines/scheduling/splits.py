"""Splits, looks at a source and requests, in a word each."""

from __future__ import annotations

from flykka.actors.machines.sources.split_enumerator import SplitEnumerator
from flykka.actors.machines.sources.split_enumerator_events import (
    AssignSplits,
    SplitsFound,
    SplitsRequested,
    SubtaskSettled,
)
from flykka.messages.tasks.source import FileSplit
from flykka.messages.wire.ids import SplitId


def split(name: str) -> FileSplit:
    return FileSplit(split_id=SplitId(name), path=f"/in/{name}", start_row=0, rows=1)


def found(names: str, *, finished: bool = False, begun_at: str = "", position: str | None = None) -> SplitsFound:
    """A look from behind the splits `begun_at`; the position is the names of all that were found."""
    reached = begun_at + names if position is None else position
    return SplitsFound(
        splits=tuple(split(name) for name in names),
        finished=finished,
        begun_at=begun_at.encode(),
        position=reached.encode(),
    )


def asks(subtask: int, count: int = 1, attempt: int = 0) -> SplitsRequested:
    return SplitsRequested(subtask=subtask, attempt_number=attempt, count=count)


def assigns(subtask: int, names: str, *numbers: int) -> AssignSplits:
    """Without numbers: the splits are named in the order in which all went out, `a` first."""
    return AssignSplits(
        subtask=subtask,
        splits=tuple(split(name) for name in names),
        numbers=numbers or tuple(ord(name) - ord("a") for name in names),
    )


def settled(subtask: int, checkpoint_id: int) -> SubtaskSettled:
    return SubtaskSettled(subtask=subtask, checkpoint_id=checkpoint_id)


def enumerator(parallelism: int = 2) -> SplitEnumerator:
    return SplitEnumerator(parallelism=parallelism)
