"""Elements that a Task reads, in the order in which it handles them, and the coalescing of batches into one stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flykka.actors.machines.effects import StartTimer
from flykka.actors.machines.exchange.checkpoint_barrier_handler import AbortCheckpointOnBarrier, StopPersisting
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.exchange import CheckpointBarrier, LatencyMarker, WatermarkStatus

COALESCED_BYTES = 16 * 1024**2
"""The size below which waiting batches are processed by one stage, and so by one Spark job."""
COALESCED_BATCHES = 32
"""The most batches of one stage: Spark plans their union."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchArrived:
    """A batch, whose credit goes back with `processed(channel)`; a recovered one came through no channel.

    The `coalesced` batches follow it and are processed by the same stage.
    """

    gate: int
    channel: int | None
    batch: BatchRef
    coalesced: tuple[BatchArrived, ...] = ()

    @property
    def channels(self) -> tuple[int | None, ...]:
        """The channels of all its batches."""
        return (self.channel, *(each.channel for each in self.coalesced))


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkAdvanced:
    """Event time has reached `watermark_ms` on all active channels."""

    watermark_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedEvent:
    """An event that the task only forwards."""

    event: WatermarkStatus | LatencyMarker


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfDataReached:
    """Every channel has delivered all its data; checkpoints may still follow."""

    drain: bool


CheckpointElement = CheckpointBarrier | AbortCheckpointOnBarrier | StopPersisting | StartTimer
"""Actions of the barrier handler for the task to do. `StopPersisting` comes when the inputs have stopped."""
InputElement = BatchArrived | WatermarkAdvanced | CheckpointElement | ForwardedEvent | EndOfDataReached


def coalesce(
    first: BatchArrived, read: Callable[[], InputElement | None], *, ignores_watermarks: bool
) -> tuple[tuple[BatchArrived, ...], tuple[InputElement, ...]]:
    """Read on after a batch: the batches for the same stage, and the elements that were read too far, in order.

    A watermark between batches ends the stage, because the rows after it may be late. If the task
    `ignores_watermarks`, only the last one follows the stage.
    """
    batches: list[BatchArrived] = []
    watermark: tuple[InputElement, ...] = ()
    size_bytes = first.batch.size_bytes
    while size_bytes < COALESCED_BYTES and len(batches) < COALESCED_BATCHES - 1:
        match read():
            case BatchArrived(batch=batch) as arrived:
                size_bytes += batch.size_bytes
                batches.append(arrived)
            case WatermarkAdvanced() as advanced if ignores_watermarks:
                watermark = (advanced,)
            case None:
                break
            case element:
                return tuple(batches), (*watermark, element)
    return tuple(batches), watermark
