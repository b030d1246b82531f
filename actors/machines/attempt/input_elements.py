"""Elements that a Task reads, in the order in which it is to handle them."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.attempt.checkpoints import Alignment
from flykka.actors.machines.effects import StartTimer
from flykka.messages.attempt.values import InputInFlight
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.exchange import CheckpointBarrier, LatencyMarker, WatermarkStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchArrived:
    """A batch is next; its credit goes back with `processed(channel)`. What was recovered came through no channel.

    The batches `behind` it, in their order, go through the same stage.
    """

    gate: int
    channel: int | None
    batch: BatchRef
    behind: tuple[BatchArrived, ...] = ()

    @property
    def channels(self) -> tuple[int | None, ...]:
        """The channels that all of them came through."""
        return (self.channel, *(each.channel for each in self.behind))


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkAdvanced:
    """Event time has come to `watermark_ms` on all channels that count."""

    watermark_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDue:
    """The barriers of a checkpoint are aligned, or it is unaligned and `in_flight` is the beginning of its state."""

    barrier: CheckpointBarrier
    alignment: Alignment
    in_flight: tuple[InputInFlight, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlightComplete:
    """The barriers of all channels are here, of a checkpoint that did not wait for them."""

    checkpoint_id: int
    alignment: Alignment


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlightGivenUp:
    """The batches that the barriers of a checkpoint have overtaken will never be known."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotGivenUp:
    """A checkpoint is not going to happen here."""

    checkpoint_id: int
    reason: CheckpointDeclineReason


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOn:
    """An event that only goes down."""

    event: WatermarkStatus | LatencyMarker


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfDataReached:
    """Every channel has delivered all its data; checkpoints may still come."""

    drain: bool


CheckpointElement = SnapshotDue | SnapshotGivenUp | InFlightComplete | InFlightGivenUp | StartTimer
InputElement = BatchArrived | WatermarkAdvanced | CheckpointElement | PassedOn | EndOfDataReached
