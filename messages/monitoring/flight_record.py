"""The flight record of a job: written when it has failed, before anybody is told."""

from __future__ import annotations

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message, message


@message("flight_record.written")
class FlightRecordWritten(Message):
    """JobClientActor's I/O -> JobClientActor: the last turns before the failure are to be read at `path`, if any.

    `earlier_checkpoint` is whole, where the failure is that a later one is not.
    """

    path: str
    earlier_checkpoint: str | None = None


@message("flight_record.not_written")
class FlightRecordNotWritten(Message):
    """JobClientActor's I/O -> JobClientActor: there is no such file, and this is why."""

    cause: SerializedThrowable
