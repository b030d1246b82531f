"""Reads keyed state from checkpoints and savepoints by operator uid."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike, fspath
from typing import TYPE_CHECKING

from flykka.actors.errors import CheckpointStorageError
from flykka.client.checkpoints import find_checkpoint, operators_of
from flykka.errors import CheckpointError
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, OperatorMetadata, TaskStateEntry
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.state.handles import OperatorSubtaskState
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.errors import SavedStateError

if TYPE_CHECKING:
    from flykka.spark_bridge.saved_state.reading import SavedState

WITH_TIMERS = frozenset((OperatorKind.KEYED_PROCESS,))


def read_state(path: str | PathLike[str], uid: str) -> SavedState:
    """Return the keyed state of an operator in the savepoint or completed checkpoint at `path`.

    The state is read with the active Spark session, or with a new one.

    Raises:
        CheckpointNotFoundError: there is no checkpoint at this path. The error describes its contents.
        CheckpointError: the checkpoint cannot be read, or its state is missing or damaged.
        SavedStateError: there is no operator with this uid and keyed state. The error names those that exist.
    """
    return state_in(find_checkpoint(fspath(path), ""), uid)


def state_in(checkpoint: CompletedCheckpoint, uid: str) -> SavedState:
    """Return the keyed state of an operator in a checkpoint that was already read. See `read_state`."""
    operator = _operator(checkpoint, uid)
    states = keyed_states_of(checkpoint, operator.operator_id)
    if not states:
        with_state = [each.ref.uid for each in _operators(checkpoint) if keyed_states_of(checkpoint, each.operator_id)]
        there = ", ".join(map(repr, with_state)) or "none"
        raise SavedStateError(
            f"{uid!r} ({operator.name}) keeps no keyed state in {checkpoint.path}; operators with keyed state: {there}"
        )
    if operator.state_schema is None:
        raise SavedStateError(
            f"{checkpoint.path} does not contain the schema of the state of {uid!r} ({operator.name})"
        )
    from flykka.spark_bridge.saved_state.reading import SavedState
    from flykka.spark_bridge.session.session import spark_session

    try:
        return SavedState(
            spark_session(),
            uid,
            operator.state_schema,
            states,
            max_parallelism=max_parallelism_of(checkpoint, operator),
            has_timers=operator.kind in WITH_TIMERS,
        )
    except CheckpointStorageError as damage:
        raise CheckpointError(f"the state of {uid!r} in {checkpoint.path!r} cannot be read: {damage}") from damage


def max_parallelism_of(checkpoint: CompletedCheckpoint, operator: OperatorMetadata) -> int:
    # The job may have adopted another number from an earlier checkpoint, so the number in the state comes first.
    entries = (entry.max_parallelism for entry, _ in states_of(checkpoint, operator.operator_id))
    return next(entries, operator.max_parallelism)


def keyed_operators(checkpoint: CompletedCheckpoint) -> list[OperatorMetadata]:
    return [
        each
        for each in _operators(checkpoint)
        if each.state_schema is not None and keyed_states_of(checkpoint, each.operator_id)
    ]


def _operator(checkpoint: CompletedCheckpoint, uid: str) -> OperatorMetadata:
    operators = _operators(checkpoint)
    operator = next((each for each in operators if each.ref.uid == uid), None)
    if operator is None:
        there = ", ".join(repr(each.ref.uid) for each in operators) or "operators without a uid"
        raise SavedStateError(f"{checkpoint.path} has no operator {uid!r}; it has {there}")
    return operator


def _operators(checkpoint: CompletedCheckpoint) -> list[OperatorMetadata]:
    return [each for each in operators_of(checkpoint).values() if not each.kind.is_local]


def states_of(
    checkpoint: CompletedCheckpoint, operator_id: OperatorId
) -> Iterator[tuple[TaskStateEntry, OperatorSubtaskState]]:
    """Yield an operator's state in each subtask, with the task state entry that contains the state."""
    for entry in checkpoint.task_states:
        for state in entry.state.operators if entry.state is not None else ():
            if state.operator_id == operator_id:
                yield entry, state


def keyed_states_of(checkpoint: CompletedCheckpoint, operator_id: OperatorId) -> list[OperatorSubtaskState]:
    """Return the keyed state of each subtask, including empty state."""
    return [state for _, state in states_of(checkpoint, operator_id) if state.key_groups is not None]
