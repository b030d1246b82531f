"""Summarizes a checkpoint or savepoint by operator, for `flykka savepoint inspect` and Python."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.job_graph.operator_ids import given_uid
from flykka.actors.machines.state.handles import state_sizes
from flykka.client.checkpoints import operators_of
from flykka.client.saved_state import states_of
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, OperatorMetadata
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.state.handles import OperatorSubtaskState, StateSchema
from flykka.messages.wire.ids import OperatorId


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSummary:
    """The state of an operator. `uid` is None if the user set none. `name` is None if the checkpoint contains none.

    `rows` counts the rows of keyed state, and is None for a savepoint. `files` counts files or folders.
    """

    operator_id: OperatorId
    uid: str | None
    name: str | None
    kind: OperatorKind | None
    parallelism: int
    max_parallelism: int
    state_kinds: tuple[str, ...]
    state_bytes: int
    files: int
    rows: int | None
    key_groups: int
    schema: StateSchema | None


def operator_summaries(checkpoint: CompletedCheckpoint) -> tuple[OperatorSummary, ...]:
    """Return the operators, in the order of the job if known. Local parts of operators are left out."""
    operators = operators_of(checkpoint)
    sizes = state_sizes(checkpoint)
    ids = dict.fromkeys((*operators, *sizes))
    return tuple(
        _summary(checkpoint, operator_id, operators.get(operator_id), sizes.get(operator_id, 0))
        for operator_id in ids
        if operator_id not in operators or not operators[operator_id].kind.is_local
    )


def _summary(
    checkpoint: CompletedCheckpoint, operator_id: OperatorId, operator: OperatorMetadata | None, state_bytes: int
) -> OperatorSummary:
    entries = list(states_of(checkpoint, operator_id))
    states = [state for _, state in entries]
    shared = {handle.state_id: handle for state in states for handle in state.shared}
    # If the parallelism was not stored, it is the number of subtasks with state.
    parallelism = entries[0][0].parallelism if entries else operator.parallelism if operator else 0
    max_parallelism = entries[0][0].max_parallelism if entries else operator.max_parallelism if operator else 0
    return OperatorSummary(
        operator_id=operator_id,
        uid=given_uid(operator_id, operator.ref.uid) if operator else None,
        name=operator.name if operator else None,
        kind=operator.kind if operator else None,
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        state_kinds=tuple(_kinds(checkpoint, operator_id, states)),
        state_bytes=state_bytes,
        files=len(shared) + sum(len(state.exclusive) for state in states),
        rows=sum(handle.rows for handle in shared.values()) if shared else None,
        key_groups=sum(groups.end - groups.start + 1 for groups in {state.key_groups for state in states} if groups),
        schema=operator.state_schema if operator else None,
    )


def _kinds(checkpoint: CompletedCheckpoint, operator_id: OperatorId, states: list[OperatorSubtaskState]) -> list[str]:
    """Describe the state in Flink's terms: keyed state, lists with name and mode, channel state, and coordinators."""
    kinds: list[str] = []
    if any(state.key_groups is not None and (state.shared or state.exclusive or state.keyed_state) for state in states):
        kinds.append("keyed")
    lists: dict[str, int] = {}
    for state in states:
        for each in state.operator_state:
            label = f"{each.name} ({each.mode})"
            lists[label] = lists.get(label, 0) + len(each.elements)
    kinds += [f"list {label}: {count}" for label, count in lists.items() if count]
    if any(state.input_channels or state.result_subpartitions for state in states):
        kinds.append("channel")
    if any(coordinator.operator_id == operator_id for coordinator in checkpoint.coordinator_states):
        kinds.append("coordinator")
    return kinds
