"""Who hears what becomes of a job: those it was begun with, and those that come later."""

from __future__ import annotations

from collections.abc import Sequence

from flykka.actors.machines.graph.execution_graph import ExecutionGraph
from flykka.messages.control.job import JobStatusChanged, RegisterJobClient, RegisterJobClientSuccess
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref


class JobListeners:
    """Used in the turns of a JobMaster only."""

    def __init__(self, listeners: Sequence[Ref]) -> None:
        self._listeners = list(listeners)

    def tell(self, message: Message) -> None:
        """Tell every one of them."""
        for listener in self._listeners:
            listener.tell(message)

    def register(self, message: RegisterJobClient, graph: ExecutionGraph, now: int) -> None:
        """Tell one more from here on, and first the status of the job: the rest is known to its read model."""
        job_id, client = message.job_id, message.client
        client.tell(JobStatusChanged(job_id=job_id, status=graph.status, timestamp_ms=now, cause=graph.failure_cause))
        client.tell(RegisterJobClientSuccess(job_id=job_id))
        if client not in self._listeners:
            self._listeners.append(client)
