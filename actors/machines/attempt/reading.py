"""The reading of inputs: each element becomes a stage, or is sent after the stages before it."""

from __future__ import annotations

from flykka.actors.machines.attempt.effects import TaskEffect
from flykka.actors.machines.attempt.idleness import WatermarksWithIdleness
from flykka.actors.machines.attempt.input_elements import (
    BatchArrived,
    EndOfDataReached,
    ForwardedEvent,
    WatermarkAdvanced,
)
from flykka.actors.machines.attempt.inputs import TaskInputs
from flykka.actors.machines.attempt.operator_events import OperatorEventDispatcher
from flykka.actors.machines.attempt.stages import Stage, Stages
from flykka.actors.machines.attempt.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator
from flykka.actors.machines.attempt.time import ProcessingTimers, uses_event_time
from flykka.messages.attempt.commands import AdvanceProcessingTime, AdvanceWatermark, ProcessBatch
from flykka.messages.graph.job_graph import JobVertex
from flykka.messages.tasks.exchange import WATERMARK_MAX, EndOfData, Watermark, WatermarkStatus


class InputReading:
    """The inputs of one attempt, read element by element."""

    __slots__ = ("_checkpoints", "_events", "_idleness", "_inputs", "_stages", "_timers", "_uses_event_time")

    def __init__(
        self,
        vertex: JobVertex,
        inputs: TaskInputs,
        stages: Stages,
        idleness: WatermarksWithIdleness,
        timers: ProcessingTimers,
        events: OperatorEventDispatcher,
        checkpoints: SubtaskCheckpointCoordinator,
    ) -> None:
        self._uses_event_time = uses_event_time(vertex)
        self._inputs = inputs
        self._stages = stages
        self._idleness = idleness
        self._timers = timers
        self._events = events
        self._checkpoints = checkpoints

    def read(self, now: int, *, has_room: bool) -> list[TaskEffect] | None:
        """Read the next element, without room only one that does not wait for it; None if there is none."""
        if has_room and self._events.is_due:
            return self._events.handle(now)
        if has_room and self._timers.is_due:
            return self._fire_timers(now)
        match self._inputs.next(now, only_priority=not has_room):
            case None:
                return None
            case BatchArrived() as arrived:
                awake = self._idleness.read()
                command = ProcessBatch(
                    stage=self._stages.line.next_stage,
                    gate=arrived.gate,
                    batch=arrived.batch,
                    watermark_ms=self._inputs.watermark_ms,
                    processing_time_ms=self._timers.time_of_stage(now),
                    coalesced=tuple(each.batch for each in arrived.coalesced),
                    aggregates=self._events.take_results(),
                )
                return [*awake, *self._stages.begin(Stage(command=command, channels=arrived.channels))]
            case WatermarkAdvanced(watermark_ms=watermark_ms):
                ended = self._idleness.end() if watermark_ms == WATERMARK_MAX else []
                return ended + self._advance_watermark(watermark_ms, now)
            case EndOfDataReached(drain=drain):
                self._timers.end()
                self._events.end()
                return self._stages.emit_after(EndOfData(drain=drain))
            case ForwardedEvent(event=WatermarkStatus()) if self._stages.event_time.makes_watermarks:
                return []
            case ForwardedEvent(event=event):
                return self._stages.emit_after(event)
            case element:
                return self._checkpoints.on_element(element, now)

    def _advance_watermark(self, watermark_ms: int, now: int) -> list[TaskEffect]:
        if self._checkpoints.defers_firing:
            return []  # it is sent before the next barrier, after the rows it fires
        if not self._uses_event_time:
            return self._stages.emit_after(Watermark(timestamp_ms=watermark_ms))
        stage, now_ms = self._stages.line.next_stage, self._timers.time_of_stage(now)
        command = AdvanceWatermark(stage=stage, watermark_ms=watermark_ms, processing_time_ms=now_ms)
        return self._stages.begin(Stage(command=command))

    def _fire_timers(self, now: int) -> list[TaskEffect]:
        self._timers.fire()
        stage, watermark_ms = self._stages.line.next_stage, self._inputs.watermark_ms
        command = AdvanceProcessingTime(stage=stage, processing_time_ms=now, watermark_ms=watermark_ms)
        return self._stages.begin(Stage(command=command))
