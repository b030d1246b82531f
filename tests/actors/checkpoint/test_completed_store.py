"""What a store retains, and what of it is left to whoever takes a job over."""

from __future__ import annotations

from flykka.actors.checkpoint.checkpoint_handles import CheckpointHandles
from flykka.actors.checkpoint.completed_store import CompletedCheckpointStore, checkpoints_match
from flykka.actors.checkpoint.properties import for_checkpoint
from flykka.messages.job import JobStatus
from flykka.messages.job_graph import ExternalizedCheckpointRetention
from tests.actors.checkpoint.coordinating import completed

NEVER = for_checkpoint(ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS)


def ids(store: CompletedCheckpointStore) -> list[int]:
    return [checkpoint.checkpoint_id for checkpoint in store]


def test_they_are_kept_by_id_however_they_complete() -> None:
    store = CompletedCheckpointStore(2)

    gone = [checkpoint.checkpoint_id for number in (3, 1, 2) for checkpoint in store.add(completed(number))]

    assert (ids(store), gone) == ([2, 3], [1])


def test_a_savepoint_stays_whatever_becomes_of_the_job() -> None:
    store = CompletedCheckpointStore(3, NEVER)
    store.add(completed(1))
    store.add(completed(2, savepoint=True))

    kept = store.shutdown(JobStatus.FINISHED)

    assert [checkpoint.checkpoint_id for checkpoint in kept] == [2]
    assert len(store) == 0


def test_who_prefers_checkpoints_goes_back_to_one_and_else_to_the_newest() -> None:
    store = CompletedCheckpointStore(3)
    store.add(completed(1, savepoint=True))
    only = store.latest_checkpoint
    store.add(completed(2))
    store.add(completed(3, savepoint=True))

    assert only == completed(1, savepoint=True)
    assert (store.latest, store.latest_checkpoint) == (completed(3, savepoint=True), completed(2))


def test_a_suspended_job_leaves_its_checkpoints_to_whoever_takes_it_over() -> None:
    handles = CheckpointHandles()
    former, taking_over = (CompletedCheckpointStore(2, NEVER, handles) for _ in range(2))
    former.add(completed(1))

    kept = former.shutdown(JobStatus.SUSPENDED)
    free = not handles.is_held(1)
    taking_over.recover()

    assert (kept, free, ids(taking_over)) == ([completed(1)], True, [1])


def test_a_job_that_has_ended_leaves_nothing_to_take_over() -> None:
    handles = CheckpointHandles()
    store = CompletedCheckpointStore(2, NEVER, handles)
    store.add(completed(1))

    kept = store.shutdown(JobStatus.FINISHED)

    assert (kept, handles.ids) == ([], ())


def test_what_another_store_holds_is_not_discarded_before_it_lets_go() -> None:
    handles = CheckpointHandles()
    first, second = (CompletedCheckpointStore(1, NEVER, handles) for _ in range(2))
    first.add(completed(1))
    second.recover()

    by_first = first.add(completed(2))
    by_second = second.add(completed(3))

    assert (by_first, by_second) == ([], [completed(1)])


def test_lists_match_where_jobs_ids_and_order_do() -> None:
    some = [completed(1), completed(2)]

    assert checkpoints_match(some, [completed(1), completed(2, savepoint=True)])
    assert not checkpoints_match(some, some[::-1])
    assert not checkpoints_match(some, some[:1])
    assert not checkpoints_match(some, [completed(1), completed(2, job="other")])
