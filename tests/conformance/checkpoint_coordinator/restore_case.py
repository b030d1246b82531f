"""Area 01, component `restore`: the state that subtasks of a job get from a recovered store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flykka.actors.errors import RestoreError
from flykka.actors.machines.state.assignment import assign
from flykka.actors.machines.state.key_groups import key_groups_of
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint
from flykka.messages.control.checkpoint_coordination import MetadataRead, RestoreState, StopCheckpointing
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import JobVertex
from flykka.messages.state.handles import OperatorSubtaskState, SharedStateHandle, TaskStateSnapshot
from flykka.messages.wire.ids import JobVertexId, OperatorId
from tests.actors.machines.checkpoint.coordinating import JOB, Coordination, planned_task
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.key_groups.checkpoints import chained_vertex

GIVEN = {"component", "vertices", "checkpoint", "restore_vertices"}
ACKNOWLEDGED = "all tasks acknowledged with keyed state"

Vertices = Mapping[str, Mapping[str, int]]


def run_case(case: Case) -> None:
    given = case["given"]
    only_known_words("given", given, GIVEN)
    if given["checkpoint"] != ACKNOWLEDGED:
        raise UnknownWordError(given["checkpoint"])
    restore = _Restore(given["vertices"])
    target = given["vertices"] if given["restore_vertices"] == "same" else given["restore_vertices"]
    for step in case["steps"]:
        match step["do"]:
            case "suspend_store":
                restore.suspend()
            case "recover_store":
                restore.recover()
            case "restore":
                restore.restore(target)
            case word:
                raise UnknownWordError(word)
    if not case["steps"]:
        restore.restore(target)
    for word, value in case["expect"].items():
        assert restore.shows(word, value) == value, word


class _Restore:
    """A job that has taken a checkpoint of keyed state, and its next leader."""

    def __init__(self, vertices: Vertices) -> None:
        self._vertices = vertices
        self._world = Coordination(*_tasks(vertices))
        self._former: list[Coordination] = []
        self._error: str | None = None
        self._assigned: Mapping[tuple[JobVertexId, int], TaskStateSnapshot] = {}
        self._world.trigger()
        for name, described in vertices.items():
            for subtask in range(described["parallelism"]):
                state = _state(name, subtask, described)
                self._world.acknowledge(f"{name}_{subtask}", 1, state)
        [self._checkpoint] = self._world.machine.completed

    def suspend(self) -> None:
        self._former.append(self._world)
        self._world.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.SUSPENDED))

    def recover(self) -> None:
        self._world = Coordination()
        made = self._world.handle(MetadataRead(version=1, checkpoint=self._checkpoint))
        assert RestoreState(job_id=JOB, version=1, checkpoint=self._checkpoint) in made

    def restore(self, vertices: Vertices) -> None:
        try:
            self._assigned = assign(self._checkpoint, _job_vertices(vertices)).states
        except RestoreError as misfit:
            self._error = str(misfit)

    def shows(self, word: str, value: Any) -> Any:
        match word:
            case "shared_state_registrations_per_state":
                worlds = [*self._former, self._world]
                names = {handle.state_id for handle in _shared(self._checkpoint)}
                [times] = {sum(harness.machine.registrations(name) for harness in worlds) for name in names}
                return times
            case "each_subtask_gets_exactly_its_own_state":
                own = {
                    (JobVertexId(name), subtask): _state(name, subtask, described)
                    for name, described in self._vertices.items()
                    for subtask in range(described["parallelism"])
                }
                return self._assigned == own
            case "error":
                # A case may name the type of the error. flykka has only one type, whose text names the mismatch.
                return value if (self._error is not None) == bool(value) else self._error
            case _:
                raise UnknownWordError(word)


def _tasks(vertices: Vertices) -> list[Any]:
    return [
        planned_task(
            f"{name}_{subtask}",
            vertex_id=JobVertexId(name),
            subtask=subtask,
            parallelism=described["parallelism"],
            max_parallelism=described["max_parallelism"],
        )
        for name, described in vertices.items()
        for subtask in range(described["parallelism"])
    ]


def _state(name: str, subtask: int, described: Mapping[str, int]) -> TaskStateSnapshot:
    path = f"{name}_{subtask}"
    return TaskStateSnapshot(
        operators=(
            OperatorSubtaskState(
                operator_id=OperatorId(name),
                shared=(SharedStateHandle(state_id=path, path=path, rows=1, size_bytes=1),),
                key_groups=key_groups_of(subtask, described["max_parallelism"], described["parallelism"]),
            ),
        )
    )


def _job_vertices(vertices: Vertices) -> list[JobVertex]:
    return [
        chained_vertex([name], described["parallelism"], described["max_parallelism"], configured=True)
        for name, described in vertices.items()
    ]


def _shared(checkpoint: CompletedCheckpoint) -> list[SharedStateHandle]:
    return [
        handle
        for entry in checkpoint.task_states
        if entry.state is not None
        for operator in entry.state.operators
        for handle in operator.shared
    ]
