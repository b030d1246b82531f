"""Events between a function and its coordinator, at the task (Flink's OperatorEventDispatcher).

Events of the coordinator are handled by a separate stage, between two batches. Events that wait when a barrier arrives
are handled before the snapshot. Events of a function leave the task with the results of their stage, and carry the id
of the last barrier before them. Results of global aggregates reach the function with its next stage.
"""

from __future__ import annotations

from flykka.actors.machines.attempt.events import TaskEffect
from flykka.actors.machines.attempt.inputs import TaskInputs
from flykka.actors.machines.attempt.stages import Stage, Stages
from flykka.actors.machines.attempt.time import ProcessingTimers
from flykka.actors.machines.effects import Role, Tell
from flykka.messages.attempt.commands import HandleOperatorEvents
from flykka.messages.tasks.operator_event import (
    AggregateResult,
    GlobalAggregateResults,
    OperatorEvents,
    SendOperatorEvents,
)
from flykka.messages.tasks.task import TaskDeploymentDescriptor


class OperatorEventDispatcher:
    """Dispatches the events of one attempt, for the operator at the head of its chain."""

    __slots__ = (
        "_attempt",
        "_checkpoint_id",
        "_inputs",
        "_is_ended",
        "_operator_id",
        "_results",
        "_stages",
        "_timers",
        "_waiting",
    )

    def __init__(
        self, descriptor: TaskDeploymentDescriptor, stages: Stages, inputs: TaskInputs, timers: ProcessingTimers
    ) -> None:
        self._attempt = descriptor.attempt
        self._operator_id = descriptor.vertex.operators[0].operator_id
        self._stages = stages
        self._inputs = inputs
        self._timers = timers
        self._waiting: list[bytes] = []
        self._results: dict[str, AggregateResult] = {}
        # The last checkpoint whose barrier was sent.
        self._checkpoint_id = descriptor.restored_checkpoint_id or 0
        self._is_ended = False

    @property
    def is_due(self) -> bool:
        return bool(self._waiting)

    def on_message(self, message: OperatorEvents | GlobalAggregateResults) -> None:
        match message:
            case OperatorEvents(events=events):
                if not self._is_ended:
                    self._waiting += events
            case GlobalAggregateResults(results=results):
                self._results.update({result.name: result for result in results})

    def handle(self, now: int) -> list[TaskEffect]:
        if not self._waiting:
            return []
        events, self._waiting = tuple(self._waiting), []
        handling = HandleOperatorEvents(
            stage=self._stages.line.next_stage,
            operator_id=self._operator_id,
            events=events,
            watermark_ms=self._inputs.watermark_ms,
            processing_time_ms=self._timers.time_of_stage(now),
            aggregates=self.drain_results(),
        )
        return self._stages.begin(Stage(command=handling))

    def drain_results(self) -> tuple[AggregateResult, ...]:
        if not self._results:
            return ()
        results, self._results = tuple(self._results.values()), {}
        return results

    def on_stage_ended(self, stage: Stage) -> list[TaskEffect]:
        sends: list[TaskEffect] = [
            Tell(
                to=Role.JOB_MASTER,
                message=SendOperatorEvents(attempt=self._attempt, checkpoint_id=self._checkpoint_id, sent=sent),
            )
            for sent in stage.result.sent
        ]
        if stage.barrier is not None:
            self._checkpoint_id = stage.barrier.checkpoint_id
        return sends

    def end(self) -> None:
        self._waiting.clear()
        self._is_ended = True
