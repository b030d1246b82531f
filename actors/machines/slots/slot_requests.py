"""Requests for slots by the tasks of a job, made by the ExecutionGraph per attempt, and their answers."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.slots.resource_profile import UNSPECIFIED
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, JobVertexId, TaskManagerId
from flykka.messages.wire.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedSlot:
    """A slot that the job holds, where it is, and its size."""

    allocation_id: AllocationId
    task_manager_id: TaskManagerId
    task_manager: Ref
    size: ResourceSpec = UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class CoLocationConstraint:
    """All tasks that have the same one run in the same slot (Flink's CoLocationConstraint)."""

    group: str
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequest:
    """An attempt needs room in a slot of its sharing group.

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
    """Release the room of the attempt, whether it has it or waits for it.

    Where it `will_return`, another attempt at the same subtask is going to follow: the slot is kept for it.
    """

    attempt: ExecutionAttemptId
    will_return: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetPriorSlots:
    """No subtask comes back to the slot it had: the job is about to be another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotAllocated:
    """These attempts have room in this slot."""

    attempts: tuple[ExecutionAttemptId, ...]
    slot: AssignedSlot


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotAllocationFailed:
    """There is no room for these attempts."""

    attempts: tuple[ExecutionAttemptId, ...]
    cause: SerializedThrowable


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsLost:
    """Slots are gone with the attempts in them, all for one `cause`.

    Where that is the loss of a whole TaskManager it is named, and what was kept there of other attempts is gone too.
    """

    attempts: tuple[ExecutionAttemptId, ...]
    cause: SerializedThrowable
    task_manager_id: TaskManagerId | None = None


SlotAnswer = SlotAllocated | SlotAllocationFailed | SlotsLost
"""Events of the slots that the ExecutionGraph handles."""
