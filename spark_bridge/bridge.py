"""SparkBridge: the actor between a Task and the Spark side of its execution attempt.

It blocks in no turn: commands become work of the attempt's own threads, and what those report comes back as messages to
the bridge, which tells its parent in the same order. So the trace of a bridge holds all that Spark has answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.messages.bridge import WorkReported
from flykka.messages.stage import BridgeCommand
from flykka.runtime.actor import Actor

if TYPE_CHECKING:
    from flykka.messages.message import Message
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

    def handle_message(self, message: Message) -> None:
        """Commands from the Task, and what the attempt's threads have to say."""
        match message:
            case WorkReported(report=report):
                self.context.parent.tell(report)
            case _ if isinstance(message, BridgeCommand):
                self._attempt.handle(message)
            case _:
                self.context.unhandled(message)
