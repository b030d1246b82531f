"""Inside a bridge: the answers of its engine, and the progress of its work."""

from __future__ import annotations

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message, Value, message, value
from flykka.messages.wire.ref import Ref


@message("attempt.work_answered")
class WorkAnswered(Message):
    """engine -> bridge: the answer to a piece of work, by its number."""

    piece: int
    answer: Message


@message("attempt.engine_failed")
class EngineFailed(Message):
    """engine -> bridge -> Task: the attempt cannot continue, whatever is at work."""

    cause: SerializedThrowable


@message("attempt.progress_due")
class ProgressDue(Message):
    """timer -> bridge: look at the progress of the work."""


@value("attempt.work_progress")
class WorkProgress(Value):
    """Piece of work number `piece` of an attempt, begun `age_ms` ago: its Spark jobs, and their tasks."""

    piece: int
    what: str
    age_ms: int
    jobs: int = 0
    tasks: int = 0
    tasks_done: int = 0
    tasks_active: int = 0
    tasks_failed: int = 0


@message("attempt.progress_seen")
class ProgressSeen(Message):
    """look at Spark -> bridge: the progress of the work; `reply_to` has asked for it, if anything has."""

    works: tuple[WorkProgress, ...]
    reply_to: Ref | None = None
