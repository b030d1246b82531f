"""The failed checkpoints that a job survives, by their cause."""

from __future__ import annotations

from enum import StrEnum

from flykka.messages.wire.message import Value, value


class CheckpointFailureReason(StrEnum):
    """The causes of failed checkpoints that can be tolerated each by itself, by Flink's names.

    A task could not write its state (ASYNC_EXCEPTION) or take part (DECLINED), a checkpoint took too long, its metadata
    could not be written (FINALIZE), a master hook met an OSError (IO_EXCEPTION), or a checkpoint could not begin for
    another reason (TRIGGER). The last one alone is tolerated unless set.
    """

    CHECKPOINT_ASYNC_EXCEPTION = "CHECKPOINT_ASYNC_EXCEPTION"
    CHECKPOINT_DECLINED = "CHECKPOINT_DECLINED"
    CHECKPOINT_EXPIRED = "CHECKPOINT_EXPIRED"
    IO_EXCEPTION = "IO_EXCEPTION"
    FINALIZE_CHECKPOINT_FAILURE = "FINALIZE_CHECKPOINT_FAILURE"
    TRIGGER_CHECKPOINT_FAILURE = "TRIGGER_CHECKPOINT_FAILURE"


UNLIMITED_TOLERABLE_FAILURES = 2**31 - 1
"""Failed checkpoints never fail the job (Flink's UNLIMITED_TOLERABLE_FAILURE_NUMBER)."""


@value("job_graph.tolerable_failures")
class TolerableFailures(Value):
    """The number of checkpoints in a row that may fail of one cause, beside the number of those of all others."""

    reason: CheckpointFailureReason
    number: int
