"""Looking into snapshots: which files they refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from flykka.messages.checkpoint_metadata import CompletedCheckpoint
from flykka.messages.state import (
    ExclusiveStateHandle,
    OperatorSubtaskState,
    SharedStateHandle,
    TaskStateSnapshot,
)


def shared_state(snapshot: TaskStateSnapshot | None) -> Iterator[SharedStateHandle]:
    """The shared state that a subtask refers to."""
    for operator in snapshot.operators if snapshot else ():
        yield from operator.shared


def exclusive_state(snapshot: TaskStateSnapshot | None) -> Iterator[ExclusiveStateHandle]:
    """The state of a subtask that belongs to one checkpoint alone."""
    for operator in snapshot.operators if snapshot else ():
        yield from operator.exclusive


def with_shared_state(
    snapshot: TaskStateSnapshot | None, kept: Callable[[SharedStateHandle], SharedStateHandle]
) -> TaskStateSnapshot | None:
    """The snapshot with each handle of shared state replaced by `kept(handle)`."""
    if snapshot is None:
        return None
    operators = tuple(
        replace(operator, shared=tuple(kept(handle) for handle in operator.shared)) for operator in snapshot.operators
    )
    return replace(snapshot, operators=operators)


def snapshots(checkpoint: CompletedCheckpoint) -> Iterable[TaskStateSnapshot | None]:
    """The snapshots of all subtasks."""
    return (entry.state for entry in checkpoint.task_states)


def shared_state_of(checkpoint: CompletedCheckpoint) -> dict[str, SharedStateHandle]:
    """The shared state of a whole checkpoint by its id: subtasks may refer to the same."""
    return {handle.state_id: handle for snapshot in snapshots(checkpoint) for handle in shared_state(snapshot)}


def exclusive_state_of(checkpoint: CompletedCheckpoint) -> tuple[ExclusiveStateHandle, ...]:
    """The exclusive state of a whole checkpoint."""
    return tuple(handle for snapshot in snapshots(checkpoint) for handle in exclusive_state(snapshot))


def with_paths(checkpoint: CompletedCheckpoint, named: Callable[[str], str]) -> CompletedCheckpoint:
    """The checkpoint with the path of each handle replaced by `named(path)`."""

    def renamed(operator: OperatorSubtaskState) -> OperatorSubtaskState:
        return replace(
            operator,
            shared=tuple(replace(handle, path=named(handle.path)) for handle in operator.shared),
            exclusive=tuple(replace(handle, path=named(handle.path)) for handle in operator.exclusive),
        )

    return replace(
        checkpoint,
        task_states=tuple(
            replace(entry, state=replace(entry.state, operators=tuple(map(renamed, entry.state.operators))))
            if entry.state is not None
            else entry
            for entry in checkpoint.task_states
        ),
    )
