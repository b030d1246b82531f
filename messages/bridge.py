"""Messages inside a bridge: reports of its worker threads, and of their progress."""

from __future__ import annotations

from flykka.messages.message import Message, Value, message, value
from flykka.messages.ref import Ref


@message("bridge.work_reported")
class WorkReported(Message):
    """worker thread of an attempt -> its bridge: tell the Task this."""

    report: Message


@message("bridge.progress_due")
class ProgressDue(Message):
    """timer -> bridge: look how far the stages at work are."""


@value("bridge.work_progress")
class WorkProgress(Value):
    """Piece of work number `piece` of an attempt, begun `age_ms` ago: its Spark jobs, and the tasks of these."""

    piece: int
    what: str
    age_ms: int
    jobs: int = 0
    tasks: int = 0
    tasks_done: int = 0
    tasks_active: int = 0
    tasks_failed: int = 0


@message("bridge.progress_seen")
class ProgressSeen(Message):
    """look at Spark -> bridge: so far is what is at work; `reply_to` has asked for it, or nobody has."""

    works: tuple[WorkProgress, ...]
    reply_to: Ref | None = None
