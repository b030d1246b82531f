"""The effects that all machines share. An effect that only one actor can perform belongs to that actor's machine.

An actor has one timer per name. A timer that is started again replaces the former one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message

To = TypeVar("To", covariant=True)


class Role(StrEnum):
    BRIDGE = "bridge"
    CHECKPOINT_COORDINATOR = "checkpoint coordinator"
    JOB_LISTENERS = "listeners of the job"
    JOB_MASTER = "JobMaster"
    RESOURCE_MANAGER = "ResourceManager"
    SENDER = "sender"
    TASK_MANAGER = "TaskManager"


@dataclass(frozen=True, slots=True)
class JobMasterOf:
    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell(Generic[To]):
    """Send a message to an actor, which is addressed by its role, its ref or an id."""

    to: To
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimer:
    """Deliver the message to this machine after `delay_ms`."""

    key: str
    delay_ms: int
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTimer:
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWarning:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """Do nothing, for this reason: the message is late, a duplicate, or not for this machine."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailJob:
    cause: SerializedThrowable
