"""The flight record of a job, which is written when the job has failed, before clients are notified."""

from __future__ import annotations

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message, message


@message("flight_record.written")
class FlightRecordWritten(Message):
    """JobClientActor's I/O -> JobClientActor: the last turns before the failure, if there are any, are recorded at
    `path`.

    If the job failed because a checkpoint is damaged, `earlier_checkpoint` is an earlier, intact checkpoint.
    """

    path: str
    earlier_checkpoint: str | None = None


@message("flight_record.not_written")
class FlightRecordNotWritten(Message):
    """JobClientActor's I/O -> JobClientActor: the file could not be written, for this cause."""

    cause: SerializedThrowable
