"""The checkpoints from which a job may start, and the subtasks that receive their state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

from flykka.actors.machines.state.assignment import StateAssignment, assign
from flykka.actors.machines.state.key_groups import groups_in
from flykka.client.checkpoints import LATEST, find_checkpoint
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint
from flykka.messages.graph.job_graph import JobVertex
from flykka.messages.state.handles import OperatorListState, TaskStateSnapshot
from tests.conformance.case_files import UnknownWordError, only_known_words
from tests.conformance.key_groups.checkpoints import chained_vertex, checkpoint_of_states, keyed_state, operator_state

_TASKS = {"checkpoint", "ack_with_state", "max_parallelism", "new_parallelism", "new_max_parallelism"}
_OPERATORS = {"checkpoint_operators", "job_operators", "allow_non_restored"}
_CHAINS = {"old_chains", "new_chains", "new_parallelism_of_second", "allow_non_restored"}

_NUMBERS = {"old_parallelism", "new_parallelism", "max_parallelism", "old_max_parallelism", "new_max_parallelism"}
"""The parameters that cases of rescaled keyed state also have."""

_MAX_PARALLELISM = 128
_CHAINED_PARALLELISM = 10
"""The default parallelism of chains in a case, and the number of their key groups, as in Flink's test."""
_CHAINED_MAX_PARALLELISM = 64


def restore(given: dict[str, Any], expect: dict[str, Any]) -> None:
    """Restore the checkpoint of the case, which is described by tasks, operators or chains, or only by numbers."""
    if "checkpoint" in given and given["checkpoint"] is None:
        only_known_words("given", given, {"checkpoint", "error_if_none"})
        _check(_without_checkpoint(error_if_none=given["error_if_none"]), expect)
    elif "checkpoint" in given:
        only_known_words("given", given, _TASKS)
        _check(_by_tasks(given), expect)
    elif "old_chains" in given:
        only_known_words("given", given, _CHAINS)
        said = given["new_parallelism_of_second"]
        for parallelism in [said] if isinstance(said, int) else said:
            _check(_by_chains(given, expect, parallelism), expect)
    elif "old_parallelism" in given:
        only_known_words("given", given, _NUMBERS)
        _check(_by_numbers(given), expect)
    else:
        only_known_words("given", given, _OPERATORS)
        _check(_by_operators(given), expect)


def _without_checkpoint(*, error_if_none: bool) -> _Restored:
    with TemporaryDirectory() as empty:
        if error_if_none:
            find_checkpoint(LATEST, empty)
    return _Restored(checkpoint=checkpoint_of_states({}), assignment=StateAssignment())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restored:
    checkpoint: CompletedCheckpoint
    assignment: StateAssignment

    def tasks(self) -> set[str]:
        return {f"{vertex_id}_{subtask}" for vertex_id, subtask in self.assignment.states}

    def elements(self) -> dict[str, list[bytes]]:
        """Return the restored elements of each operator, for all its subtasks together."""
        return _elements(self.assignment.states.values())

    def keyed(self) -> dict[str, list[int]]:
        """Return the restored key groups of each operator, for all its subtasks together."""
        given: dict[str, list[int]] = {}
        for snapshot in self.assignment.states.values():
            for state in snapshot.operators:
                if state.key_groups is not None:
                    given.setdefault(state.operator_id, []).extend(groups_in(state.key_groups))
        return given


def _check(restored: _Restored, expect: dict[str, Any]) -> None:
    before = _elements(entry.state for entry in restored.checkpoint.task_states if entry.state is not None)
    after = {name: sorted(elements) for name, elements in restored.elements().items()}
    for word, wanted in expect.items():
        match word:
            case "tasks_given_state":
                assert restored.tasks() == set(wanted)
            case "tasks_not_touched":
                assert not restored.tasks() & set(wanted)
            case "state_follows_operator_id":
                assert after == {name: sorted(before[name]) for name in wanted}
            case "new_operators_get_no_state":
                assert not after.keys() & set(wanted)
            case "state_left_over":
                assert sorted(restored.assignment.non_restored) == sorted(wanted)
            case "keyed_state_only_for":
                assert restored.keyed() == {name: list(range(_CHAINED_MAX_PARALLELISM)) for name in wanted}
            case _:
                raise UnknownWordError(word)


def _by_tasks(given: Mapping[str, Any]) -> _Restored:
    before = given["checkpoint"]
    most = _of_each(before, given.get("max_parallelism", {}))
    most_now = {**most, **_of_each(before, given.get("new_max_parallelism", {}))}
    now = {**before, **_of_each(before, given.get("new_parallelism", {}))}
    old, new = (
        [
            chained_vertex([name], parallelism, bounds.get(name, _MAX_PARALLELISM), configured=name in bounds)
            for name, parallelism in parallelisms.items()
        ]
        for parallelisms, bounds in ((before, most), (now, most_now))
    )
    return _restored(old, new, stateful=frozenset(given.get("ack_with_state", ())))


def _of_each(names: Iterable[str], said: int | Mapping[str, int]) -> Mapping[str, int]:
    return dict.fromkeys(names, said) if isinstance(said, int) else said


def _by_operators(given: Mapping[str, Any]) -> _Restored:
    old, new = (
        [chained_vertex([name], 1, _MAX_PARALLELISM) for name in given[word]]
        for word in ("checkpoint_operators", "job_operators")
    )
    return _restored(old, new, allowed=given.get("allow_non_restored", False))


def _by_numbers(given: Mapping[str, Any]) -> _Restored:
    both = given.get("max_parallelism", _MAX_PARALLELISM)
    old_max, new_max = (given.get(word, both) for word in ("old_max_parallelism", "new_max_parallelism"))
    old = chained_vertex(["operator"], given["old_parallelism"], old_max)
    new = chained_vertex(["operator"], given.get("new_parallelism", given["old_parallelism"]), new_max, configured=True)
    return _restored([old], [new], keyed=frozenset({"operator"}))


def _by_chains(given: Mapping[str, Any], expect: Mapping[str, Any], parallelism_of_second: int) -> _Restored:
    old = [chained_vertex(chain, _CHAINED_PARALLELISM, _CHAINED_MAX_PARALLELISM) for chain in given["old_chains"]]
    parallelisms = [_CHAINED_PARALLELISM, parallelism_of_second]
    new = [
        chained_vertex(chain, parallelism, _CHAINED_MAX_PARALLELISM)
        for chain, parallelism in zip(given["new_chains"], parallelisms, strict=True)
    ]
    keyed = frozenset(expect.get("keyed_state_only_for", ()))
    return _restored(old, new, allowed=given.get("allow_non_restored", False), keyed=keyed)


def _restored(
    old: Sequence[JobVertex],
    new: Sequence[JobVertex],
    *,
    allowed: bool = False,
    stateful: frozenset[str] | None = None,
    keyed: frozenset[str] = frozenset(),
) -> _Restored:
    snapshots = {
        of.vertex_id: (of, [_snapshot(of, subtask, stateful, keyed) for subtask in range(of.parallelism)]) for of in old
    }
    checkpoint = checkpoint_of_states(snapshots)
    assignment = assign(checkpoint, new, allow_non_restored_state=allowed)
    return _Restored(checkpoint=checkpoint, assignment=assignment)


def _snapshot(
    of: JobVertex, subtask: int, stateful: frozenset[str] | None, keyed: frozenset[str]
) -> TaskStateSnapshot | None:
    names = [operator.ref.uid for operator in of.operators if stateful is None or operator.ref.uid in stateful]
    lists = [
        operator_state(name, [OperatorListState(name="list", elements=(f"{name} {subtask}".encode(),))])
        for name in names
    ]
    keyed_states = [keyed_state(name, subtask, of) for name in names if name in keyed]
    return TaskStateSnapshot(operators=(*lists, *keyed_states)) if names else None


def _elements(snapshots: Iterable[TaskStateSnapshot]) -> dict[str, list[bytes]]:
    elements: dict[str, list[bytes]] = {}
    for snapshot in snapshots:
        for state in snapshot.operators:
            for each in state.operator_state:
                elements.setdefault(state.operator_id, []).extend(each.elements)
    return elements
