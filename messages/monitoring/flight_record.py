"""The flight record of a job: written when it has failed, before clients are notified."""

from __future__ import annotations

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message, message


@message("flight_record.written")
class FlightRecordWritten(Message):
    """JobClientActor's I/O -> JobClientActor: the last turns before the failure are recorded at `path`, if there are
    any.

    `earlier_checkpoint` is an intact one, if the failure is that a later checkpoint is damaged.
    """

    path: str
    earlier_checkpoint: str | None = None


@message("flight_record.not_written")
class FlightRecordNotWritten(Message):
    """JobClientActor's I/O -> JobClientActor: the file could not be written, for this cause."""

    cause: SerializedThrowable
