"""The CheckpointCoordinatorDeActivator: switches periodic checkpoints on while the job runs, and off else.

A listener of the job's status like any other, so that the coordinator need not know what a job goes through.
"""

from __future__ import annotations

from flykka.messages.control.checkpoint_coordination import StartCheckpointScheduler, StopCheckpointScheduler
from flykka.messages.control.job import JobStatus, JobStatusChanged
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props


@trace_tag("actor.checkpoint_coordinator_de_activator")
class CheckpointCoordinatorDeActivator(Actor):
    """A child of the JobMaster, beside the coordinator."""

    def __init__(self, coordinator: Ref) -> None:
        self._coordinator = coordinator

    def handle_message(self, message: Message) -> None:
        """RUNNING starts the scheduler, any other status stops it."""
        match message:
            case JobStatusChanged(job_id=job_id, status=JobStatus.RUNNING):
                self._coordinator.tell(StartCheckpointScheduler(job_id=job_id))
            case JobStatusChanged(job_id=job_id):
                self._coordinator.tell(StopCheckpointScheduler(job_id=job_id))
            case _:
                self.context.unhandled(message)


def de_activator_props(coordinator: Ref) -> Props:
    return Props(CheckpointCoordinatorDeActivator, coordinator).with_dispatcher("pinned", may_block=False)
