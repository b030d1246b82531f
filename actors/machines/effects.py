"""The effects that all machines share; what only one actor can do is an effect of its machine.

An actor has one timer of each name, and a timer that is started again replaces the former.
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
    """The receiver of a message, by what it is to the sender."""

    BRIDGE = "bridge"
    CHECKPOINT_COORDINATOR = "checkpoint coordinator"
    JOB_LISTENERS = "listeners of the job"
    JOB_MASTER = "JobMaster"
    RESOURCE_MANAGER = "ResourceManager"
    SENDER = "sender"
    """The sender of the message at hand."""
    TASK_MANAGER = "TaskManager"


@dataclass(frozen=True, slots=True)
class JobMasterOf:
    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell(Generic[To]):
    """Tell an actor, which is addressed by its role, its ref or an id."""

    to: To
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimer:
    """Come back with the message after `delay_ms`."""

    key: str
    delay_ms: int
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTimer:
    """Cancel the timer of this name, if it runs."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWarning:
    """Warn the user in the log."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """Do nothing, for this reason: the message is late, a duplicate, or not for this machine."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailJob:
    cause: SerializedThrowable
