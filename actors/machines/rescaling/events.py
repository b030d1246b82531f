"""Events and effects of an AdaptiveScheduler, beside the messages that it handles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from flykka.actors.machines.effects import CancelTimer, Ignore, Role, StartTimer, Tell
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobRestartDue
from flykka.messages.control.rescaling import CountSlotsDue, JobResourceRequirements, ResourceWaitTimedOut
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobVertexId

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingWanted:
    """The JobMaster is ready to run the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementsChanged:
    """A client has set other bounds, which are checked and stored."""

    requirements: JobResourceRequirements


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsCounted:
    """There are so many `slots` for the job, those that it holds included; `coming` are those that may be started."""

    slots: int
    coming: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAnswered:
    """The checkpoint that was asked for is complete, or was given up."""

    request_id: str
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMoved:
    """The job has a new status."""

    status: JobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksDeployed:
    """Every task of the job has a slot, and goes there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleRefused:
    """The ExecutionGraph goes on as it is, for this reason."""

    why: str


RescalingEvent = (
    SchedulingWanted
    | RequirementsChanged
    | SlotsCounted
    | CheckpointAnswered
    | JobMoved
    | TasksDeployed
    | RescaleRefused
    | JobRestartDue
    | CountSlotsDue
    | ResourceWaitTimedOut
)

# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class CountSlots:
    """Ask how many slots there are for the job, and come back with `SlotsCounted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleGraph:
    """Have the ExecutionGraph begin, or restart, with this parallelism."""

    parallelism: Mapping[JobVertexId, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginScheduling:
    """Let the job begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartJob:
    """Let the job restart after its failure."""

    due: JobRestartDue


@dataclass(frozen=True, slots=True, kw_only=True)
class FailJob:
    """The job cannot go on."""

    cause: SerializedThrowable


RescalingEffect = (
    CountSlots
    | Tell[Literal[Role.CHECKPOINT_COORDINATOR, Role.JOB_LISTENERS]]
    | RescaleGraph
    | BeginScheduling
    | RestartJob
    | FailJob
    | StartTimer
    | CancelTimer
    | Ignore
)
