"""The effects that all machines share; what only one actor can do is an effect of its machine.

An actor has one timer of each name, and a timer that is started again replaces the former.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from flykka.messages.wire.message import Message

To = TypeVar("To", covariant=True)


class Role(StrEnum):
    """An actor by what it is to the one that tells it something."""

    BRIDGE = "bridge"
    CHECKPOINT_COORDINATOR = "checkpoint coordinator"
    JOB_MASTER = "JobMaster"
    RESOURCE_MANAGER = "ResourceManager"
    SENDER = "sender"
    """The sender of the message at hand."""
    TASK_MANAGER = "TaskManager"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell(Generic[To]):
    """Tell an actor: one by its role or its ref, or the one that stands for an id."""

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
    """The timer of this name is not needed any more."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWarning:
    """Something is odd, and the user may want to know."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """A message is late, doubled or meant for somebody else: nothing is to be done, and why."""

    reason: str
