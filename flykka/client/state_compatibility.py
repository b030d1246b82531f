"""Matches the operators of a job with the state in a checkpoint, and explains what to do if they do not match.

Used on job submission, and by `flykka savepoint check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from flykka.actors.errors import RestoreError
from flykka.actors.machines.job_graph.operator_ids import given_uid
from flykka.actors.machines.state.assignment import assign, current_ids
from flykka.actors.machines.state.handles import state_sizes
from flykka.actors.machines.state.in_flight import is_in_flight
from flykka.actors.machines.state.schema_evolution import changes, has_changed, is_evolvable, schema_mismatches
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, OperatorMetadata
from flykka.messages.graph.job_graph import JobGraph, JobVertex, Operator, OperatorKind
from flykka.messages.state.handles import OperatorSubtaskState, StateSchema
from flykka.messages.wire.ids import OperatorId

LET_GO = "allow_non_restored_state=True (in `flykka run` --allow-non-restored-state)"


class OperatorMatch(StrEnum):
    MATCHED = "matched"
    ADDED = "added"
    REMOVED = "removed"
    RENAMED = "renamed"
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCompatibility:
    """An operator and its match. `uid` is None if the user set none, or if the checkpoint does not contain it.

    If the operator was probably renamed, `former_uid` is the uid of the operator to which the state belongs.
    `state_bytes` is the size of the operator's state in the checkpoint, or None without state. `changes` describes the
    conversion of stored values if the state schema has changed.
    """

    match: OperatorMatch
    operator_id: OperatorId
    uid: str | None
    name: str
    state_bytes: int | None = None
    former_uid: str | None = None
    problem: str | None = None
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCompatibility:
    """The comparison of a checkpoint with a job: the job's operators in order, followed by removed operators."""

    operators: tuple[OperatorCompatibility, ...]
    problems: tuple[str, ...]
    """The reasons why the job cannot start from the checkpoint, one sentence each. Empty if it can."""
    settings: tuple[str, ...] = ()
    """Changed Spark settings on which the results depend, one phrase each."""

    def operators_with(self, match: OperatorMatch) -> tuple[OperatorCompatibility, ...]:
        return tuple(operator for operator in self.operators if operator.match is match)


def state_compatibility(
    checkpoint: CompletedCheckpoint,
    job_graph: JobGraph,
    former: Mapping[OperatorId, OperatorMetadata],
    *,
    allow_non_restored_state: bool = False,
) -> StateCompatibility:
    """Compare a checkpoint with a job. `former` are the known operators of the job that took the checkpoint."""
    ids = current_ids(job_graph.vertices)
    sizes = {ids.get(stored, stored): size for stored, size in state_sizes(checkpoint).items()}
    former = {ids.get(stored, stored): operator for stored, operator in former.items()}
    compared = [
        _compared(checkpoint, vertex, operator, former.get(operator.operator_id), sizes)
        for vertex in job_graph.vertices
        for operator in vertex.operators
        if not operator.kind.is_local
    ]
    there = {operator.operator_id for vertex in job_graph.vertices for operator in vertex.operators}
    removed = [
        _removed(operator_id, former.get(operator_id), sizes)
        for operator_id in dict.fromkeys((*former, *sizes))
        if operator_id not in there and not _is_local(former.get(operator_id))
    ]
    operators = _with_renamed(compared, removed, job_graph, former)
    problems = [operator.problem for operator in operators if operator.problem is not None]
    changed = [operator for operator in operators if operator.changes]
    if changed and any(is_in_flight(state) for state in _states(checkpoint)):
        problems.append(
            f"it is unaligned, and its rows in flight belong to the former state of {', '.join(map(_name, changed))}:"
            " start the changed program from a savepoint or an aligned checkpoint"
        )
    if not allow_non_restored_state:
        problems += _lost(checkpoint, removed, operators)
        problems += _lost_coordinators(checkpoint, job_graph, ids)
    if not problems and (misfit := _cannot_be_assigned(checkpoint, job_graph.vertices)) is not None:
        # Each operator's state fits on its own, but not together with the state of the other operators in its chain.
        problems.append(misfit)
    return StateCompatibility(
        operators=operators, problems=tuple(problems), settings=tuple(other_settings(checkpoint, job_graph))
    )


def other_settings(checkpoint: CompletedCheckpoint, job_graph: JobGraph) -> Iterator[str]:
    """Yield settings that differ between the checkpoint and the job, with both values.

    Checkpoints of older versions contain no settings.
    """
    was = {setting.name: setting.text for setting in checkpoint.session_settings}
    for setting in job_graph.session_settings:
        before = was.get(setting.name, setting.text)
        if before.lower() != setting.text.lower():
            yield f"{setting.name} was {before}, is {setting.text}"


def _compared(
    checkpoint: CompletedCheckpoint,
    vertex: JobVertex,
    operator: Operator,
    was: OperatorMetadata | None,
    sizes: Mapping[OperatorId, int],
) -> OperatorCompatibility:
    size = sizes.get(operator.operator_id)
    compared = OperatorCompatibility(
        match=OperatorMatch.MATCHED,
        operator_id=operator.operator_id,
        uid=given_uid(operator.operator_id, operator.ref.uid),
        name=operator.name,
        state_bytes=size,
    )
    if was is None and size is None:
        return replace(compared, match=OperatorMatch.ADDED)
    problem = None if was is None else _mismatch(operator, was, has_state=size is not None)
    if problem is None and size is not None:
        problem = _cannot_be_assigned(checkpoint, [replace(vertex, operators=(operator,))])
    if problem is not None:
        return replace(compared, match=OperatorMatch.INCOMPATIBLE, problem=problem)
    return replace(compared, changes=_changes(was, operator) if size is not None else ())


def _mismatch(operator: Operator, was: OperatorMetadata, *, has_state: bool) -> str | None:
    uid = given_uid(operator.operator_id, operator.ref.uid)
    if was.kind is not operator.kind:
        called = f"with the uid {uid!r}" if uid is not None else operator.name
        return (
            f"the operator {called} was a {was.kind} ({was.name}) and is now a {operator.kind} ({operator.name}); give"
            " it a uid of its own with uid(...)"
        )
    if not has_state or was.ref.fingerprint == operator.ref.fingerprint:
        return None
    before, now = was.state_schema, operator.state_schema
    if before is not None and not before.is_keyed and now is None:
        now = StateSchema()  # The function does not use state any more.
    if before is not None and now is not None and before != now and is_evolvable(before, now):
        what = ", ".join(schema_mismatches(before, now))
        if not what:
            return None
    else:
        what = _difference(before, now) or f"it was {was.ref.fingerprint} and is now {operator.ref.fingerprint}"
    return (
        f"the state of {(uid or operator.name)!r} ({operator.name}) no longer fits it: {what}; restore the former"
        f" definitions, or give the operator another uid with uid(...) and drop its state with {LET_GO}"
    )


def _difference(was: StateSchema | None, now: StateSchema | None) -> str:
    if was is None or now is None:
        return ""
    pairs = (
        ("keys", was.keys, now.keys),
        ("state of each key", was.columns, now.columns),
        ("windows", was.windows, now.windows),
    )
    return ", ".join(f"{what}: was `{old}`, is `{new}`" for what, old, new in pairs if old != new)


def _changes(was: OperatorMetadata | None, operator: Operator) -> tuple[str, ...]:
    before, now = None if was is None else was.state_schema, operator.state_schema
    if before is None or now is None or not has_changed(before, now):
        return ()
    return tuple(changes(before, now))


def _cannot_be_assigned(checkpoint: CompletedCheckpoint, vertices: Sequence[JobVertex]) -> str | None:
    try:
        assign(checkpoint, vertices, allow_non_restored_state=True)
    except RestoreError as misfit:
        return str(misfit)
    return None


def _states(checkpoint: CompletedCheckpoint) -> Iterator[OperatorSubtaskState]:
    for entry in checkpoint.task_states:
        yield from entry.state.operators if entry.state is not None else ()


def _name(operator: OperatorCompatibility) -> str:
    return repr(operator.uid or operator.name)


def _removed(
    operator_id: OperatorId, was: OperatorMetadata | None, sizes: Mapping[OperatorId, int]
) -> OperatorCompatibility:
    return OperatorCompatibility(
        match=OperatorMatch.REMOVED,
        operator_id=operator_id,
        uid=given_uid(was.operator_id, was.ref.uid) if was is not None else None,
        name=was.name if was is not None else "",
        state_bytes=sizes.get(operator_id),
    )


def _with_renamed(
    compared: Iterable[OperatorCompatibility],
    removed: list[OperatorCompatibility],
    job_graph: JobGraph,
    former: Mapping[OperatorId, OperatorMetadata],
) -> tuple[OperatorCompatibility, ...]:
    """Pair added operators with similar removed operators, which were probably renamed: first by name, then by type."""
    now = {operator.operator_id: operator for vertex in job_graph.vertices for operator in vertex.operators}
    operators = list(compared)
    lost = [each for each in removed if each.state_bytes is not None and each.uid is not None]
    for by_name in (True, False):
        for place, added in enumerate(operators):
            if added.match is not OperatorMatch.ADDED:
                continue
            for each in lost:
                if _is_similar(former[each.operator_id], now[added.operator_id], by_name=by_name):
                    operators[place] = replace(added, match=OperatorMatch.RENAMED, former_uid=each.uid)
                    lost.remove(each)
                    break
    return (*operators, *removed)


def _is_similar(was: OperatorMetadata, now: Operator, *, by_name: bool) -> bool:
    is_of_a_kind = was.kind is now.kind and was.ref.fingerprint == now.ref.fingerprint
    return is_of_a_kind and (was.name == now.name or not by_name)


def _lost(
    checkpoint: CompletedCheckpoint,
    removed: Iterable[OperatorCompatibility],
    operators: Iterable[OperatorCompatibility],
) -> list[str]:
    lost = [each for each in removed if each.state_bytes is not None]
    if not lost:
        return []
    there = [each for each in operators if each.match is not OperatorMatch.REMOVED]
    renamed = {each.former_uid: each.uid for each in there if each.former_uid is not None}
    names = ", ".join(_description(each, renamed.get(each.uid or "")) for each in lost)
    uids = ", ".join(repr(each.uid) for each in there if each.uid is not None) or "no operator with a uid"
    foreign = ""
    if checkpoint.job_name and all(each.state_bytes is None for each in there):
        foreign = (
            f" None of its state belongs to an operator of this job; it was written by job {checkpoint.job_name!r}."
        )
    return [
        f"it contains state of operators that the job does not have: {names}. The job has {uids};{foreign} give its"
        f" operators their former uids with uid(...), or drop that state with {LET_GO}"
    ]


def _lost_coordinators(
    checkpoint: CompletedCheckpoint, job_graph: JobGraph, ids: Mapping[OperatorId, OperatorId]
) -> Iterator[str]:
    operator_ids = {ids.get(each.operator_id, each.operator_id) for each in checkpoint.coordinator_states}
    for vertex in job_graph.vertices:
        for operator in vertex.operators:
            is_coordinated = operator.has_coordinator or operator.kind is OperatorKind.SOURCE
            if operator.operator_id in operator_ids and not is_coordinated:
                uid = given_uid(operator.operator_id, operator.ref.uid) or operator.name
                yield (
                    f"it contains state of the coordinator of {uid!r}, but its function no longer has a coordinator:"
                    f" make it a CoordinatedFunction, or drop that state with {LET_GO}"
                )


def _description(operator: OperatorCompatibility, renamed: str | None) -> str:
    if operator.uid is None:
        description = f"{operator.name} without a uid, and" if operator.name else "an operator"
        return f"{description} with the id {operator.operator_id}"
    looks = f", which is probably {renamed!r} of the job: set uid({operator.uid!r})" if renamed is not None else ""
    return f"{operator.uid!r} ({operator.name}){looks}"


def _is_local(was: OperatorMetadata | None) -> bool:
    return was is not None and was.kind.is_local
