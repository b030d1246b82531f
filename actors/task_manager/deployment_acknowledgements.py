"""Acknowledgements of deployments: what a TaskManager has taken on since it told its JobMasters last."""

from __future__ import annotations

from collections.abc import Callable

from flykka.messages.tasks.task import AcknowledgeDeployments, AcknowledgementsDue
from flykka.messages.wire.ids import ExecutionAttemptId, JobId
from flykka.messages.wire.message import Message
from flykka.runtime.context import ActorContext


class DeploymentAcknowledgements:
    """Used in the turns of its TaskManager only. Thousands of attempts that come together are answered for together."""

    def __init__(self, context: ActorContext, tell_job_master: Callable[[JobId, Message], None]) -> None:
        self._context = context
        self._tell_job_master = tell_job_master
        self._waiting: dict[JobId, list[ExecutionAttemptId]] = {}

    def add(self, job_id: JobId, attempt: ExecutionAttemptId) -> None:
        """The attempt runs; its JobMaster hears of it when what has come with it is dealt with."""
        if not self._waiting:
            self._context.ref.tell(AcknowledgementsDue())
        self._waiting.setdefault(job_id, []).append(attempt)

    def tell(self) -> None:
        """Tell each JobMaster of its attempts."""
        waiting, self._waiting = self._waiting, {}
        for job_id, attempts in waiting.items():
            self._tell_job_master(job_id, AcknowledgeDeployments(attempts=tuple(attempts)))
