"""The store of a leader in memory, for tests that are not about who leads."""

from __future__ import annotations

from flykka.actors.checkpoint_storage.checkpoint_pointers import CheckpointPointers
from flykka.actors.high_availability.embedded import EmbeddedHaServices
from flykka.actors.high_availability.services import LeaderStore
from flykka.messages.wire.ids import JobId
from tests.flykka.cluster.high_availability.contenders import lead


def new_store() -> LeaderStore:
    """A store with nothing in it, whose user leads."""
    return lead(EmbeddedHaServices())


def new_checkpoints(job_id: JobId) -> CheckpointPointers:
    """The checkpoints of a job that has none."""
    return new_store().checkpoints(job_id)
