"""Requests for slots by the tasks of a job: made by the ExecutionGraph, per attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from flykka.actors.machines.slots.resource_profile import UNSPECIFIED
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, JobVertexId, TaskManagerId
from flykka.messages.wire.ref import Ref

SlotRequestId = NewType("SlotRequestId", str)
"""`<sharing group>/<number>`: one slot that a job has asked for, which its tasks may share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedSlot:
    """A slot that the job holds, and where it is."""

    allocation_id: AllocationId
    task_manager_id: TaskManagerId
    task_manager: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class CoLocationConstraint:
    """All tasks that have the same one run in the same slot (Flink's CoLocationConstraint)."""

    group: str
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequest:
    """One attempt needs room in a slot of its sharing group.

    It should be where the attempts in `inputs` are, which it reads from, else on one of the TaskManagers in
    `preferred`. A later attempt at the same `subtask` of the vertex goes back to the slot of the one before.
    """

    attempt: ExecutionAttemptId
    vertex_id: JobVertexId
    subtask: int
    slot_sharing_group: str
    co_location: CoLocationConstraint | None = None
    resources: ResourceSpec = UNSPECIFIED
    inputs: tuple[ExecutionAttemptId, ...] = ()
    preferred: tuple[TaskManagerId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSlots:
    """Get room for each of these attempts, which are in topological order."""

    requests: tuple[SlotRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnSlot:
    """The attempt needs its room no more, whether it has it or waits for it.

    Where it `will_return`, another attempt at the same subtask is going to follow: the slot is kept for it.
    """

    attempt: ExecutionAttemptId
    will_return: bool
