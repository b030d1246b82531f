"""Events and effects of the SlotTable, beside the messages that it handles and sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flykka.actors.machines.effects import CancelTimer, Ignore, JobMasterOf, Role, StartTimer, Tell
from flykka.messages.control.registration import ReleaseTaskManager
from flykka.messages.control.slots import AcceptSlots, AllocateSlot, FreeSlot, OfferTimedOut, SlotTimedOut
from flykka.messages.tasks.task import SubmitTask, TaskDeploymentDescriptor
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConnected:
    """The JobMaster of the job has acknowledged this TaskManager: it can be offered slots."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationsKnown:
    """The JobMaster reports the allocations that it has here, as far as it knows (Flink's AllocatedSlotReport)."""

    job_id: JobId
    allocations: tuple[AllocationId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnded:
    """The attempt has ended here."""

    attempt: ExecutionAttemptId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDisconnected:
    """The JobMaster of the job has left or was lost, and its allocations end."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLost:
    """The JobMaster is silent: its tasks end, and slots without tasks are offered to it again."""

    job_id: JobId


SlotTableEvent = (
    AllocateSlot
    | JobConnected
    | AcceptSlots
    | OfferTimedOut
    | SlotTimedOut
    | AllocationsKnown
    | SubmitTask
    | TaskEnded
    | FreeSlot
    | JobDisconnected
    | JobLost
    | ReleaseTaskManager
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTask:
    """Run the attempt that was submitted."""

    descriptor: TaskDeploymentDescriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Stop the TaskManager: nothing runs here, and nothing will."""


TableAddress = Literal[Role.RESOURCE_MANAGER] | JobMasterOf | ExecutionAttemptId
SlotTableEffect = Tell[TableAddress] | RunTask | StartTimer | CancelTimer | End | Ignore
