"""Events and effects of an AdaptiveScheduler that are not messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from flykka.actors.machines.effects import CancelTimer, FailJob, Ignore, Role, StartTimer, Tell
from flykka.actors.machines.states import JobMoved
from flykka.messages.control.job_control import JobRestartDue
from flykka.messages.control.rescaling import CountSlotsDue, JobResourceRequirements, ResourceWaitTimedOut
from flykka.messages.wire.ids import JobVertexId

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequested:
    """The JobMaster is ready to run the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementsChanged:
    """A client has set new bounds, which are valid and stored."""

    requirements: JobResourceRequirements


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsCounted:
    """The number of slots that the job can have, including its current slots. `coming` more slots can be started."""

    slots: int
    coming: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAnswered:
    request_id: str
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksDeployed:
    """Every task of the job has a slot and is being deployed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleRefused:
    why: str


RescalingEvent = (
    StartRequested
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
    """Count the slots for the job and reply with `SlotsCounted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleGraph:
    parallelism: Mapping[JobVertexId, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginScheduling:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartJob:
    due: JobRestartDue


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
