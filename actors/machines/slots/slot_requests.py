"""Slot requests of the ExecutionGraph, one for each attempt, and the replies."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.slots.resource_profile import UNSPECIFIED
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, JobVertexId, TaskManagerId
from flykka.messages.wire.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedSlot:
    allocation_id: AllocationId
    task_manager_id: TaskManagerId
    task_manager: Ref
    size: ResourceSpec = UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class CoLocationConstraint:
    """A constraint by which all tasks with an equal value run in the same slot (Flink's CoLocationConstraint)."""

    group: str
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequest:
    """A request of an attempt for room in a slot of its sharing group.

    The attempt should run near the attempts in `inputs`, whose output it reads, or else on one of the TaskManagers in
    `preferred`. A later attempt of the same `subtask` of the vertex returns to the slot of its predecessor.
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
    requests: tuple[SlotRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnSlot:
    """Release the attempt's place in its slot, or its request.

    If `will_return`, another attempt of the same subtask will follow, and the slot is reserved for it.
    """

    attempt: ExecutionAttemptId
    will_return: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetPriorSlots:
    """Drop all reservations, because the subtasks of the job are about to be replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotAllocated:
    attempts: tuple[ExecutionAttemptId, ...]
    slot: AssignedSlot


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotAllocationFailed:
    attempts: tuple[ExecutionAttemptId, ...]
    cause: SerializedThrowable


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsLost:
    """Slots were lost with the attempts in them, all for one `cause`.

    If a whole TaskManager was lost, its id is set, and results of other attempts that it retained are lost, too.
    """

    attempts: tuple[ExecutionAttemptId, ...]
    cause: SerializedThrowable
    task_manager_id: TaskManagerId | None = None


SlotAnswer = SlotAllocated | SlotAllocationFailed | SlotsLost
