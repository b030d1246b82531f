"""Effects of the slot machines that are messages: to which actor each goes."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.messages.tasks.task import FailTask
from flykka.messages.wire.ids import JobId, TaskManagerId
from flykka.messages.wire.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class TellResourceManager:
    """Tell the ResourceManager."""

    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class TellJobMaster:
    """Tell the JobMaster of the job, if it is connected."""

    job_id: JobId
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class TellTaskManager:
    """Tell the TaskManager."""

    task_manager: TaskManagerId
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class TellTask:
    """Tell the Task of the attempt."""

    message: FailTask
