"""SparkBridge: the actor between a Task and the Spark side of its execution attempt.

It blocks in no turn: commands become work of the attempt's own threads, and what those report comes back as messages to
the bridge, which tells its parent in the same order. So the trace of a bridge holds all that Spark has answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.messages.bridge import ProgressDue, ProgressSeen, WorkReported
from flykka.messages.explanation import ExplainStages, StagesExplained
from flykka.messages.stage import BridgeCommand, StageFailed
from flykka.runtime.actor import Actor
from flykka.spark_bridge.stage_watchdog import StageWatchdog

if TYPE_CHECKING:
    from flykka.messages.message import Message
    from flykka.messages.ref import Ref
    from flykka.messages.task import TaskDeploymentDescriptor
    from flykka.spark_bridge.data_plane import SparkDataPlane


class SparkBridge(Actor):
    """One per execution attempt, the only child of its Task."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, data_plane: SparkDataPlane) -> None:
        self._descriptor = descriptor
        self._data_plane = data_plane

    def pre_start(self) -> None:
        """Begin the attempt. Whatever becomes of this actor, the kernel closes it."""
        myself = self.context.ref
        self._attempt = self._data_plane.begin_attempt(
            self._descriptor, report=lambda report: myself.tell(WorkReported(report=report))
        )
        self.context.own(self._attempt)
        self._looks = False
        self._watchdog = StageWatchdog(self._descriptor.stage_timeout_ms)
        interval_ms = self._watchdog.look_interval_ms
        if interval_ms is not None:
            self.context.timers.start_fixed_delay("progress", interval_ms, ProgressDue())

    def handle_message(self, message: Message) -> None:
        """Commands from the Task, and what the attempt's threads have to say."""
        match message:
            case WorkReported(report=report):
                self.context.parent.tell(report)
            case _ if isinstance(message, BridgeCommand):
                self._attempt.handle(message)
            case ProgressDue() if not self._looks:
                # Where Spark takes its time to answer, questions must not queue up before it.
                self._looks = True
                self._look(None)
            case ProgressDue():
                pass
            case ExplainStages(reply_to=reply_to):
                self._look(reply_to)
            case ProgressSeen():
                self._on_progress(message)
            case _:
                self.context.unhandled(message)

    def _look(self, reply_to: Ref | None) -> None:
        attempt = self._attempt
        self.context.pipe_to_self(
            attempt.progress,
            on_success=lambda works: ProgressSeen(works=works, reply_to=reply_to),
            on_failure=lambda _: ProgressSeen(works=attempt.progress_without_spark(), reply_to=reply_to),
        )

    def _on_progress(self, seen: ProgressSeen) -> None:
        now = self.context.now()
        stages = self._watchdog.see(seen.works, now)
        if seen.reply_to is None:
            self._looks = False
        else:
            seen.reply_to.tell(StagesExplained(attempt=self._descriptor.attempt, stages=stages))
        stalled = self._watchdog.stalled(stages, now)
        if stalled is not None:
            self.context.timers.cancel("progress")
            self.context.parent.tell(StageFailed(cause=stalled))
