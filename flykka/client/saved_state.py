"""Keyed state of checkpoints and savepoints, found by the uid of its operator."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike, fspath
from typing import TYPE_CHECKING

from flykka.actors.errors import CheckpointStorageError
from flykka.client.checkpoints import find_checkpoint, operators_of
from flykka.errors import CheckpointError
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, OperatorMetadata
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.state.handles import OperatorSubtaskState
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
    states = list(_states_of(checkpoint, found))
    if not states:
        with_state = [each.ref.uid for each in _operators(checkpoint) if any(_states_of(checkpoint, each))]
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
    for entry in checkpoint.task_states:
        if entry.state is not None and any(
            state.operator_id == operator.operator_id for state in entry.state.operators
        ):
            return entry.max_parallelism
    return operator.max_parallelism


def keyed_operators(checkpoint: CompletedCheckpoint) -> list[OperatorMetadata]:
    """The operators with keyed state of which a checkpoint tells the schema."""
    return [
        each for each in _operators(checkpoint) if each.state_schema is not None and any(_states_of(checkpoint, each))
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


def _states_of(checkpoint: CompletedCheckpoint, operator: OperatorMetadata) -> Iterable[OperatorSubtaskState]:
    """The keyed state of each subtask, also of one that had nothing yet."""
    for entry in checkpoint.task_states:
        for state in entry.state.operators if entry.state is not None else ():
            if state.operator_id == operator.operator_id and state.key_groups is not None:
                yield state
