"""Keyed state of checkpoints and savepoints, found by the uid of its operator."""

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
"""The kinds of operators that keep timers."""


def read_state(path: str | PathLike[str], uid: str) -> SavedState:
    """The keyed state of an operator in the savepoint or the completed checkpoint at `path`.

    It is read with the active Spark session, or with a new one.

    Raises:
        CheckpointNotFoundError: there is none at this path; the text says what is there.
        CheckpointError: it cannot be read, or state that it refers to is missing or damaged.
        SavedStateError: it has no operator of this uid, or one without keyed state; the text names those there.
    """
    return state_in(find_checkpoint(fspath(path), ""), uid)


def state_in(checkpoint: CompletedCheckpoint, uid: str) -> SavedState:
    """As `read_state`, of a checkpoint that was read."""
    found = _operator(checkpoint, uid)
    states = keyed_states_of(checkpoint, found.operator_id)
    if not states:
        with_state = [each.ref.uid for each in _operators(checkpoint) if keyed_states_of(checkpoint, each.operator_id)]
        there = ", ".join(map(repr, with_state)) or "none"
        raise SavedStateError(
            f"{uid!r} ({found.name}) keeps no keyed state in {checkpoint.path}; operators with keyed state: {there}"
        )
    if found.state_schema is None:
        raise SavedStateError(f"{checkpoint.path} does not tell the schema of the state of {uid!r} ({found.name})")
    from flykka.spark_bridge.saved_state.reading import SavedState
    from flykka.spark_bridge.session.session import spark_session

    try:
        return SavedState(
            spark_session(),
            uid,
            found.state_schema,
            states,
            max_parallelism=max_parallelism_of(checkpoint, found),
            has_timers=found.kind in WITH_TIMERS,
        )
    except CheckpointStorageError as damage:
        raise CheckpointError(f"the state of {uid!r} in {checkpoint.path!r} cannot be read: {damage}") from damage


def max_parallelism_of(checkpoint: CompletedCheckpoint, operator: OperatorMetadata) -> int:
    """The number of key groups of an operator."""
    # That of a vertex may have been taken over from an earlier checkpoint.
    entries = (entry.max_parallelism for entry, _ in states_of(checkpoint, operator.operator_id))
    return next(entries, operator.max_parallelism)


def keyed_operators(checkpoint: CompletedCheckpoint) -> list[OperatorMetadata]:
    """The operators with keyed state of which a checkpoint tells the schema."""
    return [
        each
        for each in _operators(checkpoint)
        if each.state_schema is not None and keyed_states_of(checkpoint, each.operator_id)
    ]


def _operator(checkpoint: CompletedCheckpoint, uid: str) -> OperatorMetadata:
    operators = _operators(checkpoint)
    found = next((each for each in operators if each.ref.uid == uid), None)
    if found is None:
        there = ", ".join(repr(each.ref.uid) for each in operators) or "operators of which it tells no uid"
        raise SavedStateError(f"{checkpoint.path} has no operator {uid!r}; it has {there}")
    return found


def _operators(checkpoint: CompletedCheckpoint) -> list[OperatorMetadata]:
    return [each for each in operators_of(checkpoint).values() if not each.kind.is_local]


def states_of(
    checkpoint: CompletedCheckpoint, operator_id: OperatorId
) -> Iterator[tuple[TaskStateEntry, OperatorSubtaskState]]:
    """The state of an operator in each subtask, with the entry that it is part of."""
    for entry in checkpoint.task_states:
        for state in entry.state.operators if entry.state is not None else ():
            if state.operator_id == operator_id:
                yield entry, state


def keyed_states_of(checkpoint: CompletedCheckpoint, operator_id: OperatorId) -> list[OperatorSubtaskState]:
    """The keyed state of each subtask, also of one that had nothing yet."""
    return [state for _, state in states_of(checkpoint, operator_id) if state.key_groups is not None]
