"""Completing a checkpoint is one step in the store, and only a job's current coordinator can take it."""

from __future__ import annotations

import pytest

from flykka.actors.checkpoint_storage.checkpoint_pointers import CheckpointPointers
from flykka.actors.errors import LeadershipLostError
from flykka.messages.control.high_availability import CheckpointPointer
from flykka.messages.wire.ids import JobId
from tests.flykka.cluster.high_availability.contenders import lead
from tests.flykka.cluster.high_availability.places import Place

JOB = JobId("7f3a")
OTHER = JobId("0b1c")


def checkpoint_pointer(checkpoint_id: int) -> CheckpointPointer:
    return CheckpointPointer(checkpoint_id=checkpoint_id, path=f"/checkpoints/{JOB}/chk-{checkpoint_id}")


@pytest.fixture
def checkpoints(place: Place) -> CheckpointPointers:
    return lead(place.services()).checkpoints(JOB)


def test_a_job_begins_with_nothing(checkpoints: CheckpointPointers) -> None:
    recovered = checkpoints.recover("coordinator", 10)

    assert (recovered.completed, recovered.adopted, recovered.first_id) == ((), None, 1)


def test_completed_checkpoints_are_recovered_by_the_next_leader_oldest_first(place: Place) -> None:
    first = place.services()
    checkpoints = lead(first).checkpoints(JOB)
    checkpoints.recover("coordinator", 20)
    for checkpoint_id in (9, 10, 11):
        checkpoints.add("coordinator", checkpoint_pointer(checkpoint_id))
    checkpoints.remove("coordinator", [9])
    first.close()

    recovered = lead(place.services()).checkpoints(JOB).recover("next", 1)

    assert recovered.completed == (checkpoint_pointer(10), checkpoint_pointer(11))


def test_the_latest_is_the_one_that_was_completed_last_and_anybody_may_look(place: Place) -> None:
    checkpoints = lead(place.services()).checkpoints(JOB)
    assert checkpoints.latest() is None

    checkpoints.recover("coordinator", 20)
    for checkpoint_id in (9, 10):
        checkpoints.add("coordinator", checkpoint_pointer(checkpoint_id))

    assert checkpoints.latest() == checkpoint_pointer(10)


def test_ids_are_drawn_once_across_coordinators_and_leaders(place: Place) -> None:
    first = place.services()
    checkpoints = lead(first).checkpoints(JOB)
    drawn = [checkpoints.recover("a", 10).first_id, checkpoints.draw_ids("a", 5), checkpoints.recover("b", 1).first_id]
    first.close()
    store = lead(place.services())
    drawn.append(store.checkpoints(JOB).recover("c", 1).first_id)

    assert drawn == [1, 11, 16, 17]
    assert store.checkpoints(OTHER).recover("c", 1).first_id == 1


def test_ids_begin_behind_those_of_the_checkpoint_that_was_adopted(checkpoints: CheckpointPointers) -> None:
    checkpoints.recover("coordinator", 10)

    drawn = [checkpoints.draw_ids("coordinator", 2, at_least=8), checkpoints.draw_ids("coordinator", 2, at_least=40)]

    assert drawn == [11, 40]


def test_what_a_job_began_with_is_remembered(checkpoints: CheckpointPointers) -> None:
    checkpoints.recover("coordinator", 1)

    checkpoints.adopt("coordinator", checkpoint_pointer(7))

    recovered = checkpoints.recover("next", 1)
    assert (recovered.adopted, recovered.completed) == (checkpoint_pointer(7), ())


def test_a_coordinator_completes_nothing_once_another_one_of_its_job_has_begun(checkpoints: CheckpointPointers) -> None:
    checkpoints.recover("first", 10)
    checkpoints.add("first", checkpoint_pointer(1))
    checkpoints.recover("second", 10)

    for late in (
        lambda: checkpoints.add("first", checkpoint_pointer(2)),
        lambda: checkpoints.remove("first", [1]),
        lambda: checkpoints.remove_all("first"),
        lambda: checkpoints.adopt("first", checkpoint_pointer(7)),
        lambda: checkpoints.draw_ids("first", 1),
    ):
        with pytest.raises(LeadershipLostError, match="first does not coordinate the checkpoints of its job any more"):
            late()

    recovered = checkpoints.recover("third", 1)
    assert (recovered.completed, recovered.adopted, recovered.first_id) == ((checkpoint_pointer(1),), None, 21)


def test_a_coordinator_of_a_former_leader_completes_nothing(place: Place) -> None:
    services = place.services()
    before = lead(services).checkpoints(JOB)
    before.recover("coordinator", 10)
    now = lead(services).checkpoints(JOB)

    with pytest.raises(LeadershipLostError, match="leads no more"):
        before.add("coordinator", checkpoint_pointer(1))

    assert now.recover("coordinator", 10).completed == ()


def test_a_coordinator_of_a_former_leader_does_not_remove_all_of_nothing_either(place: Place) -> None:
    first = place.services()
    checkpoints = lead(first).checkpoints(JOB)
    checkpoints.recover("coordinator", 1)
    first.close()
    lead(place.services())

    with pytest.raises(LeadershipLostError):
        checkpoints.remove_all("coordinator")


def test_what_was_removed_is_not_there_and_may_be_removed_again(checkpoints: CheckpointPointers) -> None:
    checkpoints.recover("coordinator", 10)
    for checkpoint_id in (1, 2, 3):
        checkpoints.add("coordinator", checkpoint_pointer(checkpoint_id))

    checkpoints.remove("coordinator", [2, 2, 9])
    some = checkpoints.recover("coordinator", 1).completed
    checkpoints.remove_all("coordinator")

    assert some == (checkpoint_pointer(1), checkpoint_pointer(3))
    assert checkpoints.recover("coordinator", 1).completed == ()


def test_jobs_have_checkpoints_of_their_own(place: Place) -> None:
    store = lead(place.services())
    ours, theirs = store.checkpoints(JOB), store.checkpoints(OTHER)
    ours.recover("ours", 10)
    theirs.recover("theirs", 10)
    ours.add("ours", checkpoint_pointer(1))
    theirs.add("theirs", checkpoint_pointer(1))

    ours.remove_all("ours")

    assert theirs.recover("theirs", 1).completed == (checkpoint_pointer(1),)
