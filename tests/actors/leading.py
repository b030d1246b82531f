"""An in-memory store of a leader, for tests that do not test leader election."""

from __future__ import annotations

from flykka.actors.checkpoint_storage.checkpoint_pointers import CheckpointPointers
from flykka.actors.high_availability.embedded import EmbeddedHaServices
from flykka.actors.high_availability.services import LeaderStore
from flykka.messages.wire.ids import JobId
from tests.flykka.cluster.high_availability.contenders import lead


def new_store() -> LeaderStore:
    return lead(EmbeddedHaServices())


def new_checkpoints(job_id: JobId) -> CheckpointPointers:
    return new_store().checkpoints(job_id)
