"""The alignment of a barrier with those of the other channels: the questions to Flink's CheckpointOptions."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.effects import StartTimer
from flykka.messages.checkpointing.checkpoint import AlignmentType
from flykka.messages.tasks.exchange import AlignmentTimeoutDue, Buffer, CheckpointBarrier

# Looked up for every barrier: an Enum member is slow to reach.
_ALIGNED = AlignmentType.ALIGNED
_UNALIGNED = AlignmentType.UNALIGNED


def is_unaligned(buffer: Buffer) -> bool:
    """True if it overtakes data: only an unaligned barrier does."""
    return isinstance(buffer, CheckpointBarrier) and buffer.options.alignment is _UNALIGNED


def may_time_out(buffer: Buffer) -> bool:
    """True if the barrier is aligned until a timeout."""
    return (
        isinstance(buffer, CheckpointBarrier)
        and buffer.options.alignment is _ALIGNED
        and buffer.options.aligned_timeout_ms is not None
    )


def remaining_ms(barrier: CheckpointBarrier, now_ms: int) -> int:
    """Milliseconds that a barrier with a timeout stays aligned, counted from the trigger of its checkpoint."""
    assert barrier.options.aligned_timeout_ms is not None, f"barrier {barrier.checkpoint_id} stays aligned"
    return max(0, barrier.timestamp_ms + barrier.options.aligned_timeout_ms + 1 - now_ms)


def alignment_timer(barrier: CheckpointBarrier, now_ms: int) -> StartTimer:
    """The timer of the alignment. One is enough: barriers of a newer checkpoint end the alignment of the older one."""
    timeout = AlignmentTimeoutDue(checkpoint_id=barrier.checkpoint_id)
    return StartTimer(key="alignment", delay_ms=remaining_ms(barrier, now_ms), message=timeout)


def as_unaligned(barrier: CheckpointBarrier) -> CheckpointBarrier:
    """The barrier, overtaking data from now on."""
    return _with_alignment(barrier, AlignmentType.UNALIGNED)


def unaligned_unsupported(barrier: CheckpointBarrier) -> CheckpointBarrier:
    """The barrier as it goes through a channel whose batches cannot become state."""
    if is_unaligned(barrier) or may_time_out(barrier):
        return _with_alignment(barrier, AlignmentType.FORCED_ALIGNED)
    return barrier


def unaligned_supported(barrier: CheckpointBarrier) -> CheckpointBarrier:
    """The barrier as it was before it went through such a channel."""
    if barrier.options.alignment is not AlignmentType.FORCED_ALIGNED:
        return barrier
    aligned_at_first = barrier.options.aligned_timeout_ms is not None
    return _with_alignment(barrier, AlignmentType.ALIGNED if aligned_at_first else AlignmentType.UNALIGNED)


def to_send_on(barrier: CheckpointBarrier, now_ms: int) -> CheckpointBarrier:
    """The barrier as a task sends it on: it may be unaligned again, and is where its time is over."""
    barrier = unaligned_supported(barrier)
    return as_unaligned(barrier) if may_time_out(barrier) and remaining_ms(barrier, now_ms) == 0 else barrier


def _with_alignment(barrier: CheckpointBarrier, alignment: AlignmentType) -> CheckpointBarrier:
    return replace(barrier, options=replace(barrier.options, alignment=alignment))
