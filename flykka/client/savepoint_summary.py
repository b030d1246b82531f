"""Contents of a checkpoint or a savepoint, operator by operator, for `flykka savepoint inspect` and Python."""

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
    """The state of an operator; `uid` is None where it had none, and with `name` where the checkpoint tells neither.

    `rows` are those of its keyed state, `files` how many files or folders it lies in; a savepoint does not tell rows.
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
    """The operators in the order of their job, as far as it is known; what runs on behalf of another is left out."""
    known = operators_of(checkpoint)
    sizes = state_sizes(checkpoint)
    ids = dict.fromkeys((*known, *sizes))
    return tuple(
        _summary(checkpoint, operator_id, known.get(operator_id), sizes.get(operator_id, 0))
        for operator_id in ids
        if operator_id not in known or not known[operator_id].kind.is_local
    )


def _summary(
    checkpoint: CompletedCheckpoint, operator_id: OperatorId, known: OperatorMetadata | None, state_bytes: int
) -> OperatorSummary:
    entries = list(states_of(checkpoint, operator_id))
    states = [state for _, state in entries]
    shared = {handle.state_id: handle for state in states for handle in state.shared}
    # Where the parallelism was not noted, it is that of the subtasks which had state.
    parallelism = entries[0][0].parallelism if entries else known.parallelism if known else 0
    max_parallelism = entries[0][0].max_parallelism if entries else known.max_parallelism if known else 0
    return OperatorSummary(
        operator_id=operator_id,
        uid=given_uid(operator_id, known.ref.uid) if known else None,
        name=known.name if known else None,
        kind=known.kind if known else None,
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        state_kinds=tuple(_kinds(checkpoint, operator_id, states)),
        state_bytes=state_bytes,
        files=len(shared) + sum(len(state.exclusive) for state in states),
        rows=sum(handle.rows for handle in shared.values()) if shared else None,
        key_groups=sum(groups.end - groups.start + 1 for groups in {state.key_groups for state in states} if groups),
        schema=known.state_schema if known else None,
    )


def _kinds(checkpoint: CompletedCheckpoint, operator_id: OperatorId, states: list[OperatorSubtaskState]) -> list[str]:
    """In Flink's words: keyed state, lists of operator state by name and mode, rows in flight, and coordinators."""
    kinds: list[str] = []
    if any(state.key_groups is not None and (state.shared or state.exclusive or state.keyed_state) for state in states):
        kinds.append("keyed")
    lists: dict[str, int] = {}
    for state in states:
        for each in state.operator_state:
            named = f"{each.name} ({each.mode})"
            lists[named] = lists.get(named, 0) + len(each.elements)
    kinds += [f"list {named}: {count}" for named, count in lists.items() if count]
    if any(state.input_channels or state.result_subpartitions for state in states):
        kinds.append("channel")
    if any(coordinator.operator_id == operator_id for coordinator in checkpoint.coordinator_states):
        kinds.append("coordinator")
    return kinds
