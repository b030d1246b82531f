"""The way down: what stages make, and the events behind them, in the order in which they were begun.

Holds the stages in flight, the outputs they feed, and the counters. What a stage made goes out when it has finished;
then its own event (the watermark of what a source read, the barrier behind a snapshot), then whatever was waiting for
it. What is to be begun, and when, is decided by `StreamTask`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from flykka.actors.exchange.watermarks import BoundedOutOfOrdernessGenerator
from flykka.actors.execution.effects import TaskEffect, TellJobMaster
from flykka.actors.execution.metrics import Activity, TaskMeter
from flykka.actors.execution.stage_pipeline import StagePipeline
from flykka.actors.execution.task_outputs import TaskOutputs
from flykka.messages.exchange import (
    AddCredit,
    CancelPartitionRequest,
    CheckpointBarrier,
    EndOfData,
    Event,
    PartitionRequest,
    Watermark,
)
from flykka.messages.stage import StageFinished, StateSnapshotted
from flykka.messages.task import NotifyEndOfData, TaskDeploymentDescriptor

STAGES_IN_FLIGHT = 2
"""One stage's planning overlaps the other's work; a third only adds memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A stage that reads splits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A stage that processes a batch, whose credit goes back when it is done."""

    channel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """A stage that fires windows; the watermark goes down behind what they make."""

    watermark_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A stage that snapshots the chain; the barrier goes down behind what goes before it.

    `fired_ms` is the watermark up to which deferred windows fire with this snapshot, None where none do.
    """

    barrier: CheckpointBarrier
    fired_ms: int | None


Purpose = Read | Process | Fire | Snapshot


class StageLine:
    """Stages in flight and outputs of one attempt."""

    def __init__(self, descriptor: TaskDeploymentDescriptor) -> None:
        delay_ms = descriptor.vertex.watermark_delay_ms
        self._attempt = descriptor.attempt
        self._pipeline: StagePipeline[Purpose, Event] = StagePipeline(STAGES_IN_FLIGHT)
        self._outputs = TaskOutputs(descriptor.outputs)
        self._meter = TaskMeter()
        self._generator = None if delay_ms is None else BoundedOutOfOrdernessGenerator(delay_ms)

    @property
    def has_room(self) -> bool:
        """Another stage may begin: not too many are in flight, and consumers keep up."""
        return self._pipeline.has_room and not self._outputs.is_back_pressured

    @property
    def is_reading(self) -> bool:
        """A stage in flight reads splits."""
        return any(isinstance(purpose, Read) for purpose in self._pipeline.purposes)

    def pass_time(self, now: int) -> None:
        """It is `now`; what the attempt did since the last event was said by `spend_time`."""
        self._meter.pass_time(now)

    def spend_time(self, *, is_running: bool, has_input: bool) -> None:
        """What the attempt does until the next event."""
        if not is_running:
            self._meter.activity = Activity.NOT_RUNNING
        elif self._pipeline.in_flight > 0:
            self._meter.activity = Activity.BUSY
        elif has_input and self._outputs.is_back_pressured:
            self._meter.activity = Activity.BACK_PRESSURED
        else:
            self._meter.activity = Activity.IDLE

    def start(self, purpose: Purpose) -> int:
        """Begin a stage; its number."""
        return self._pipeline.start(purpose)

    def follow(self, event: Event) -> list[TaskEffect]:
        """Send `event` down behind every stage that is in flight."""
        self._pipeline.follow(event)
        return self._send_released()

    def finish(self, finished: StageFinished) -> tuple[Purpose, list[TaskEffect]]:
        """The oldest stage in flight has finished: what it was begun for, and what goes down."""
        purpose = self._pipeline.finish(finished.stage)
        self._meter.count(finished, was_input=isinstance(purpose, Read | Process))
        effects: list[TaskEffect] = []
        for output in finished.outputs:
            effects += self._outputs.add(output.output, output.batch)
        for event in self._own_events(purpose, finished):
            effects += self._send_down(event)
        return purpose, effects + self._send_released()

    def snapshotted(self, snapshotted: StateSnapshotted) -> TaskEffect:
        """A snapshot is durable: count what left the chain with it, and report."""
        self._meter.count_late_output(snapshotted.rows_out)
        return self.report()

    def serve(self, event: PartitionRequest | AddCredit | CancelPartitionRequest) -> list[TaskEffect]:
        """A consumer asks, has room, or leaves."""
        return self._outputs.handle(event)

    def report(self) -> TaskEffect:
        """Tell the JobMaster what was counted so far."""
        return TellJobMaster(message=self._meter.report(self._attempt))

    def check(self) -> None:
        """Assert the invariants of the parts."""
        self._pipeline.check()
        self._outputs.check()

    def _own_events(self, purpose: Purpose, finished: StageFinished) -> list[Event]:
        match purpose:
            case Read():
                watermark = None if self._generator is None else self._generator.on_batch(finished.event_time_max)
                return [] if watermark is None else [watermark]
            case Process():
                return []
            case Fire(watermark_ms=watermark_ms):
                return [Watermark(timestamp_ms=watermark_ms)]
            case Snapshot(barrier=barrier, fired_ms=fired_ms):
                return [barrier] if fired_ms is None else [Watermark(timestamp_ms=fired_ms), barrier]
            case _:
                assert_never(purpose)

    def _send_released(self) -> list[TaskEffect]:
        return [effect for event in self._pipeline.released() for effect in self._send_down(event)]

    def _send_down(self, event: Event) -> list[TaskEffect]:
        effects = self._outputs.broadcast(event)
        if isinstance(event, Watermark):
            self._meter.watermark(event.timestamp_ms)
        if isinstance(event, EndOfData):
            effects += [self.report(), TellJobMaster(message=NotifyEndOfData(attempt=self._attempt))]
        return effects
