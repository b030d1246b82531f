"""One contender leads, and the stores of the others are read-only."""

from __future__ import annotations

import pytest

from flykka.actors.errors import LeadershipLostError
from flykka.messages.control.high_availability import LeaderInformation
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobEnded
from flykka.messages.wire.ids import JobId
from tests.flykka.cluster.high_availability.contenders import Contender, lead
from tests.flykka.cluster.high_availability.places import Place


def test_a_second_contender_leads_after_the_first_closes(place: Place) -> None:
    first, second = place.services(), place.services()
    session = lead(first).session
    waiting = Contender()

    second.contend(waiting)
    heard_nothing = waiting.has_no_more_notifications
    first.close()

    assert heard_nothing
    assert waiting.wait_granted() != session


def test_the_address_of_a_leader_is_readable_by_all_contenders(place: Place) -> None:
    first, second = place.services(), place.services()
    nobody = second.leader()
    session = lead(first).session

    first.confirm(session, "/user/job-manager")

    assert nobody is None
    assert second.leader() == LeaderInformation(address="/user/job-manager", leader_session_id=session)


def test_a_second_contender_of_one_process_leads_and_fences_the_first(place: Place) -> None:
    services, other = place.services(), place.services()
    before = lead(services)
    waiting = Contender()
    other.contend(waiting)

    after = lead(services)

    after.run()
    with pytest.raises(LeadershipLostError, match=f"the leader session {before.session} no longer leads"):
        before.run()
    assert waiting.has_no_more_notifications


def test_a_contender_that_gave_up_leadership_cannot_write(place: Place) -> None:
    services = place.services()
    store = lead(services)
    run = store.run()

    services.close()

    with pytest.raises(LeadershipLostError):
        store.put_result(JobEnded(job_id=JobId("7f3a"), status=JobStatus.FINISHED))
    assert lead(place.services()).run() == run


def test_a_waiting_contender_cannot_write_even_under_the_leaders_session(place: Place) -> None:
    leading, waiting = place.services(), place.services()
    session = lead(leading).session
    waiting.contend(Contender())

    with pytest.raises(LeadershipLostError):
        waiting.confirm(session, "/user/job-manager")

    assert leading.leader() is None


def test_the_session_of_a_leader_is_readable_by_all_contenders(place: Place) -> None:
    first, second = place.services(), place.services()
    assert (first.last_session(), first.session) == (None, None)

    leader = lead(first)

    assert first.session == leader.session
    assert second.last_session() == leader.session
    assert second.session is None
