"""The part of a CheckpointCoordinator that talks to tasks: through their TaskManagers, to each of these in one message.

A checkpoint of ten thousand tasks is announced to as many, which live at a handful of TaskManagers.
"""

from __future__ import annotations

from collections.abc import Iterable

from flykka.messages.checkpointing.checkpoint import ForTask, TaskCheckpointMessages
from flykka.messages.control.checkpoint_coordination import CoordinatedTask
from flykka.messages.wire.ids import ExecutionAttemptId, LeaderSessionId
from flykka.messages.wire.ref import Ref
from flykka.runtime.leader_session import Gateway


class TaskGateways:
    """The TaskManagers of the attempts; used in the turns of their coordinator only."""

    def __init__(self) -> None:
        self._gateways: dict[ExecutionAttemptId, Gateway] = {}
        self._unsent: dict[Gateway, list[ForTask]] = {}

    def replace_tasks(self, tasks: Iterable[CoordinatedTask], leader_session_id: LeaderSessionId) -> None:
        """From here on these are the tasks, and they are talked to under this session."""
        gateways: dict[Ref, Gateway] = {}
        self._gateways.clear()
        for task in tasks:
            gateway = gateways.setdefault(task.task_manager, Gateway(task.task_manager, leader_session_id))
            self._gateways[task.attempt] = gateway

    def add(self, message: ForTask) -> None:
        """Have the message sent to the Task of its attempt, with the others that are added before `send`."""
        self._unsent.setdefault(self._gateways[message.attempt], []).append(message)

    def send(self) -> None:
        """Send what was added, to each TaskManager in its order."""
        for gateway, messages in self._unsent.items():
            gateway.tell(messages[0] if len(messages) == 1 else TaskCheckpointMessages(messages=tuple(messages)))
        self._unsent.clear()
