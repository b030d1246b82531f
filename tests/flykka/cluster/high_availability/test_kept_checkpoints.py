"""Completing a checkpoint is one step in the store, and only a job's current coordinator can complete it."""

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


def test_a_new_job_has_no_checkpoints(checkpoints: CheckpointPointers) -> None:
    recovered = checkpoints.recover("coordinator", 10)

    assert (recovered.completed, recovered.adopted, recovered.first_id) == ((), None, 1)


def test_the_next_leader_recovers_completed_checkpoints_oldest_first(place: Place) -> None:
    first = place.services()
    checkpoints = lead(first).checkpoints(JOB)
    checkpoints.recover("coordinator", 20)
    for checkpoint_id in (9, 10, 11):
        checkpoints.add("coordinator", checkpoint_pointer(checkpoint_id))
    checkpoints.remove("coordinator", [9])
    first.close()

    recovered = lead(place.services()).checkpoints(JOB).recover("next", 1)

    assert recovered.completed == (checkpoint_pointer(10), checkpoint_pointer(11))


def test_the_latest_checkpoint_is_readable_by_all_contenders(place: Place) -> None:
    checkpoints = lead(place.services()).checkpoints(JOB)
    assert checkpoints.latest() is None

    checkpoints.recover("coordinator", 20)
    for checkpoint_id in (9, 10):
        checkpoints.add("coordinator", checkpoint_pointer(checkpoint_id))

    assert checkpoints.latest() == checkpoint_pointer(10)


def test_ids_are_unique_across_coordinators_and_leaders(place: Place) -> None:
    first = place.services()
    checkpoints = lead(first).checkpoints(JOB)
    drawn = [checkpoints.recover("a", 10).first_id, checkpoints.draw_ids("a", 5), checkpoints.recover("b", 1).first_id]
    first.close()
    store = lead(place.services())
    drawn.append(store.checkpoints(JOB).recover("c", 1).first_id)

    assert drawn == [1, 11, 16, 17]
    assert store.checkpoints(OTHER).recover("c", 1).first_id == 1


def test_ids_start_after_the_id_of_the_adopted_checkpoint(checkpoints: CheckpointPointers) -> None:
    checkpoints.recover("coordinator", 10)

    drawn = [checkpoints.draw_ids("coordinator", 2, at_least=8), checkpoints.draw_ids("coordinator", 2, at_least=40)]

    assert drawn == [11, 40]


def test_the_initial_checkpoint_of_a_job_is_recorded(checkpoints: CheckpointPointers) -> None:
    checkpoints.recover("coordinator", 1)

    checkpoints.adopt("coordinator", checkpoint_pointer(7))

    recovered = checkpoints.recover("next", 1)
    assert (recovered.adopted, recovered.completed) == (checkpoint_pointer(7), ())


def test_a_replaced_coordinator_completes_nothing(checkpoints: CheckpointPointers) -> None:
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

    with pytest.raises(LeadershipLostError, match="no longer leads"):
        before.add("coordinator", checkpoint_pointer(1))

    assert now.recover("coordinator", 10).completed == ()


def test_a_coordinator_of_a_former_leader_cannot_clear_an_empty_store(place: Place) -> None:
    first = place.services()
    checkpoints = lead(first).checkpoints(JOB)
    checkpoints.recover("coordinator", 1)
    first.close()
    lead(place.services())

    with pytest.raises(LeadershipLostError):
        checkpoints.remove_all("coordinator")


def test_checkpoint_removal_is_idempotent(checkpoints: CheckpointPointers) -> None:
    checkpoints.recover("coordinator", 10)
    for checkpoint_id in (1, 2, 3):
        checkpoints.add("coordinator", checkpoint_pointer(checkpoint_id))

    checkpoints.remove("coordinator", [2, 2, 9])
    some = checkpoints.recover("coordinator", 1).completed
    checkpoints.remove_all("coordinator")

    assert some == (checkpoint_pointer(1), checkpoint_pointer(3))
    assert checkpoints.recover("coordinator", 1).completed == ()


def test_each_job_has_its_own_checkpoints(place: Place) -> None:
    store = lead(place.services())
    ours, theirs = store.checkpoints(JOB), store.checkpoints(OTHER)
    ours.recover("ours", 10)
    theirs.recover("theirs", 10)
    ours.add("ours", checkpoint_pointer(1))
    theirs.add("theirs", checkpoint_pointer(1))

    ours.remove_all("ours")

    assert theirs.recover("theirs", 1).completed == (checkpoint_pointer(1),)
