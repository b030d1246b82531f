"""Every heartbeat extends a client's deadline; when the deadline has passed, the client's loss is reported once."""

from __future__ import annotations

from flykka.actors.machines.effects import CancelTimer, StartTimer
from flykka.actors.machines.heartbeat import ClientExpired, ClientSessions
from flykka.messages.control.job import JobClientExpired
from flykka.messages.wire.ids import JobId

JOB, OTHER = JobId("job"), JobId("other")


def timer(delay_ms: int) -> StartTimer:
    return StartTimer(key="client-job", delay_ms=delay_ms, message=JobClientExpired(job_id=JOB))


def test_a_client_without_heartbeats_expires_once() -> None:
    sessions = ClientSessions()

    assert sessions.heartbeat(JOB, expires_ms=180, now=0) == [timer(180)]
    assert sessions.expire(JOB, now=180) == [ClientExpired(job_id=JOB)]
    assert not sessions.expire(JOB, now=181)


def test_a_heartbeat_extends_the_deadline() -> None:
    sessions = ClientSessions()
    sessions.heartbeat(JOB, expires_ms=180, now=0)

    assert sessions.heartbeat(JOB, expires_ms=210, now=30) == [timer(180)]
    assert not sessions.expire(JOB, now=180)
    assert sessions.expire(JOB, now=210)


def test_an_earlier_deadline_does_not_shorten_the_current_one() -> None:
    sessions = ClientSessions()
    sessions.heartbeat(JOB, expires_ms=210, now=30)

    assert sessions.heartbeat(JOB, expires_ms=180, now=40) == []
    assert not sessions.expire(JOB, now=180)


def test_a_deadline_that_has_already_passed_takes_effect_at_once() -> None:
    sessions = ClientSessions()

    assert sessions.heartbeat(JOB, expires_ms=10, now=30_000) == [timer(0)]
    assert sessions.expire(JOB, now=30_001) == [ClientExpired(job_id=JOB)]


def test_the_client_of_an_ended_job_is_not_monitored() -> None:
    sessions = ClientSessions()
    sessions.heartbeat(JOB, expires_ms=180, now=0)

    assert sessions.end(JOB) == [CancelTimer(key="client-job")]
    assert sessions.end(JOB) == sessions.end(OTHER) == []
    assert not sessions.expire(JOB, now=500)


def test_a_deadline_noticed_late_is_postponed_by_the_delay() -> None:
    sessions = ClientSessions()
    sessions.heartbeat(JOB, expires_ms=5_000, now=0)

    assert sessions.expire(JOB, now=31_000) == [timer(26_000)]
    assert sessions.expire(JOB, now=57_000) == [ClientExpired(job_id=JOB)]
