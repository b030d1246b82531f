"""A store retains the newest checkpoints, and all data that a later leader of the job needs."""

from __future__ import annotations

from flykka.actors.machines.checkpoint.completed_store import CompletedCheckpointStore
from flykka.actors.machines.checkpoint.properties import for_checkpoint
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import ExternalizedCheckpointRetention
from tests.actors.machines.checkpoint.coordinating import JOB, completed_checkpoint

NEVER = for_checkpoint(ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS)


def ids(store: CompletedCheckpointStore) -> list[int]:
    return [checkpoint.checkpoint_id for checkpoint in store]


def test_checkpoints_are_retained_by_id_in_any_order_of_completion() -> None:
    store = CompletedCheckpointStore(JOB, 2)

    gone = [checkpoint.checkpoint_id for number in (3, 1, 2) for checkpoint in store.add(completed_checkpoint(number))]

    assert (ids(store), gone) == ([2, 3], [1])


def test_a_savepoint_is_retained_whatever_the_final_job_status() -> None:
    store = CompletedCheckpointStore(JOB, 3, NEVER)
    store.add(completed_checkpoint(1))
    store.add(completed_checkpoint(2, savepoint=True))

    kept = store.shutdown(JobStatus.FINISHED)

    assert [checkpoint.checkpoint_id for checkpoint in kept] == [2]
    assert len(store) == 0
