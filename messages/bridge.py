"""Inside a bridge: what its worker threads report to it."""

from __future__ import annotations

from flykka.messages.message import Message, message


@message("bridge.work_reported")
class WorkReported(Message):
    """worker thread of an attempt -> its bridge: tell the Task this."""

    report: Message
