"""Every request for a savepoint or a stop is answered once, in any order of events."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.checkpoint.savepoint_requests import (
    AnswerSnapshot,
    CheckpointRequested,
    DiscardLocation,
    InitializeLocation,
    RefuseSnapshot,
    RefuseStop,
    SavepointEffect,
    SavepointEvent,
    SavepointRequested,
    SavepointRequests,
    StopRequested,
)
from flykka.actors.machines.effects import Ignore, Role, Tell
from flykka.actors.machines.states import JobMoved
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.control.checkpoint_coordination import (
    CheckpointRequest,
    SavepointCompleted,
    SavepointFailed,
    SavepointRequest,
    StopCheckpointFailed,
    StopCheckpointRequest,
)
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import SavepointLocationInitialized, SavepointLocationRefused
from flykka.messages.graph.job_graph import JobType
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message

JOB = JobId("job")
CAUSE = SerializedThrowable(type_name="TestError", message="disk full")
RUNNING = JobMoved(status=JobStatus.RUNNING)
FAILING = JobMoved(status=JobStatus.FAILING, cause=CAUSE)


def savepoint_requested(request_id: str = "s") -> SavepointRequested:
    return SavepointRequested(request_id=request_id, directory="/savepoints")


def checkpoint_wanted(request_id: str = "c", *, is_full: bool = False) -> CheckpointRequested:
    return CheckpointRequested(request_id=request_id, is_full=is_full)


def stop_wanted(
    request_id: str = "stop", directory: str | None = "/savepoints", *, drain: bool = False
) -> StopRequested:
    return StopRequested(request_id=request_id, directory=directory, drain=drain)


def location(request_id: str = "s") -> SavepointLocationInitialized:
    return SavepointLocationInitialized(request_id=request_id, location=f"/savepoints/{request_id}")


def savepoint_completed(request_id: str = "s") -> SavepointCompleted:
    return SavepointCompleted(job_id=JOB, request_id=request_id, checkpoint_id=7, path=f"/savepoints/{request_id}")


def savepoint_failed(request_id: str = "s") -> SavepointFailed:
    reason = CheckpointDeclineReason.CHECKPOINT_DECLINED
    return SavepointFailed(job_id=JOB, request_id=request_id, reason=reason, cause=CAUSE)


def stop_failed(request_id: str | None = None, checkpoint_id: int | None = 3) -> StopCheckpointFailed:
    reason = CheckpointDeclineReason.EXPIRED
    return StopCheckpointFailed(job_id=JOB, checkpoint_id=checkpoint_id, reason=reason, request_id=request_id)


def ask(request: Message) -> Tell[Role]:
    return Tell(to=Role.CHECKPOINT_COORDINATOR, message=request)


def after(*happened: SavepointEvent) -> tuple[SavepointRequests, list[SavepointEffect]]:
    requests = SavepointRequests(JOB)
    followed: list[SavepointEffect] = []
    for event in happened:
        followed = requests.handle(event)
    return requests, followed


def test_a_savepoint_gets_a_folder_and_is_reported_to_its_client() -> None:
    requests, made = after(RUNNING, savepoint_requested())
    begun = requests.handle(location())
    answered = requests.handle(savepoint_completed())

    assert made == [InitializeLocation(request_id="s", directory="/savepoints")]
    assert begun == [ask(SavepointRequest(job_id=JOB, request_id="s", target_location="/savepoints/s"))]
    assert answered == [AnswerSnapshot(request_id="s", checkpoint_id=7, path="/savepoints/s")]
    assert requests.waiting == frozenset()


@pytest.mark.parametrize("is_full", [True, False])
def test_a_checkpoint_request_reaches_the_coordinator_and_its_result_the_client(is_full: bool) -> None:
    requests, begun = after(RUNNING, checkpoint_wanted(is_full=is_full))
    answered = requests.handle(savepoint_completed("c"))

    assert begun == [ask(CheckpointRequest(job_id=JOB, request_id="c", is_full=is_full))]
    assert answered == [AnswerSnapshot(request_id="c", checkpoint_id=7, path="/savepoints/c")]
    assert requests.waiting == frozenset()


def test_the_coordinator_decides_whether_a_checkpoint_completed_during_a_failure() -> None:
    requests, moved = after(RUNNING, checkpoint_wanted(), FAILING)
    (refused,) = requests.handle(savepoint_failed("c"))

    assert moved == []
    assert isinstance(refused, RefuseSnapshot)
    assert (refused.cause.type_name, requests.waiting) == ("CheckpointError", frozenset())
    assert refused.cause.message == "it failed with CHECKPOINT_DECLINED: TestError: disk full"


def test_checkpoint_requests_are_refused_if_the_job_is_not_running() -> None:
    _, (refused,) = after(checkpoint_wanted())

    assert isinstance(refused, RefuseSnapshot)
    assert refused.cause.message == "it is CREATED: only a RUNNING job can take one"


def test_a_stop_without_a_savepoint_needs_no_folder() -> None:
    _, followed = after(RUNNING, stop_wanted(directory=None))

    assert followed == [ask(StopCheckpointRequest(job_id=JOB, request_id="stop"))]


def test_a_draining_stop_is_sent_when_its_folder_exists() -> None:
    _, followed = after(RUNNING, stop_wanted(drain=True), location("stop"))

    assert followed == [
        ask(StopCheckpointRequest(job_id=JOB, target_location="/savepoints/stop", drain=True, request_id="stop"))
    ]


def test_a_failed_savepoint_is_refused_and_its_folder_deleted() -> None:
    _, followed = after(RUNNING, savepoint_requested(), location(), savepoint_failed())

    match followed:
        case [RefuseSnapshot(request_id="s", cause=cause), DiscardLocation(location="/savepoints/s")]:
            assert cause.message == "it failed with CHECKPOINT_DECLINED: TestError: disk full"
        case _:
            raise AssertionError(followed)


def test_a_savepoint_waiting_for_its_folder_is_refused_when_the_job_fails() -> None:
    requests, refused = after(RUNNING, savepoint_requested("a"), savepoint_requested("b"), location("b"), FAILING)
    late = requests.handle(location("a"))

    assert [effect.request_id for effect in refused if isinstance(effect, RefuseSnapshot)] == ["a"]
    assert requests.waiting == {"b"}
    assert late == [DiscardLocation(location="/savepoints/a")]


def test_a_stop_ends_if_the_job_ends_and_later_events_are_ignored() -> None:
    requests, refused = after(RUNNING, stop_wanted(directory=None), FAILING)
    late = requests.handle(stop_failed())

    assert refused == [RefuseStop(why="it became FAILING meanwhile: TestError: disk full")]
    assert [type(effect) for effect in late] == [Ignore]


@pytest.mark.parametrize("word", [savepoint_failed("stop"), stop_failed(), stop_failed(checkpoint_id=None)])
def test_the_folder_of_a_stop_is_deleted_if_its_savepoint_fails(word: SavepointEvent) -> None:
    requests, moved = after(RUNNING, stop_wanted(), location("stop"), FAILING, JobMoved(status=JobStatus.RESTARTING))
    refused = requests.handle(word)

    assert moved == []
    assert refused == [
        RefuseStop(why="it became FAILING meanwhile: TestError: disk full"),
        DiscardLocation(location="/savepoints/stop"),
    ]


def test_a_savepoint_completed_while_the_job_fails_is_retained_and_named() -> None:
    _, effects = after(RUNNING, stop_wanted(), location("stop"), FAILING, savepoint_completed("stop"))

    [refusal] = effects
    assert isinstance(refusal, RefuseStop)
    assert "A savepoint has been created at /savepoints/stop" in refusal.why


def test_the_outcome_of_an_earlier_stop_does_not_end_the_current_stop() -> None:
    requests, followed = after(
        RUNNING, stop_wanted("first", None), FAILING, RUNNING, stop_wanted("stop"), stop_failed("first")
    )

    assert [type(effect) for effect in followed] == [Ignore]
    assert requests.waiting == {"stop"}


def test_a_job_that_fails_after_its_final_savepoint_retains_and_names_it() -> None:
    requests, refused = after(RUNNING, stop_wanted(), location("stop"), savepoint_completed("stop"), FAILING)

    [refusal] = refused
    assert isinstance(refusal, RefuseStop)
    assert "A savepoint has been created at /savepoints/stop" in refusal.why
    assert requests.stopped_with is None


def test_a_job_stopped_with_a_savepoint_names_the_savepoint() -> None:
    requests, followed = after(
        RUNNING, stop_wanted(), location("stop"), savepoint_completed("stop"), JobMoved(status=JobStatus.FINISHED)
    )

    assert followed == []
    assert requests.stopped_with == "/savepoints/stop"


IDS = st.sampled_from(["a", "b"])
NEWS = st.one_of(
    st.builds(location, IDS),
    st.builds(location, st.just("stop")),
    st.builds(lambda request_id: SavepointLocationRefused(request_id=request_id, cause=CAUSE), IDS),
    st.builds(savepoint_completed, IDS),
    st.builds(savepoint_completed, st.sampled_from(["c", "stop"])),
    st.builds(savepoint_failed, IDS),
    st.builds(savepoint_failed, st.sampled_from(["c", "stop"])),
    st.builds(stop_failed, st.sampled_from([None, "stop", "another"])),
    st.sampled_from([RUNNING, FAILING]),
)


def answered_clients(effects: Iterable[SavepointEffect]) -> list[str]:
    request_ids = [effect.request_id for effect in effects if isinstance(effect, AnswerSnapshot | RefuseSnapshot)]
    return request_ids + ["stop" for effect in effects if isinstance(effect, RefuseStop)]


@given(st.lists(NEWS, max_size=12))
def test_every_request_is_either_pending_or_answered_once(news: list[SavepointEvent]) -> None:
    requests, _ = after(RUNNING)

    said = [
        effect
        for event in (savepoint_requested("a"), savepoint_requested("b"), checkpoint_wanted(), stop_wanted(), *news)
        for effect in requests.handle(event)
    ]

    clients = answered_clients(said)
    assert len(clients) == len(set(clients))
    assert set(clients) ^ requests.waiting == {"a", "b", "c", "stop"}


def test_savepoints_and_stops_are_refused_for_a_batch_job() -> None:
    requests = SavepointRequests(JOB, JobType.BATCH)
    requests.handle(RUNNING)

    (no_savepoint,) = requests.handle(savepoint_requested())
    (no_checkpoint,) = requests.handle(checkpoint_wanted())
    (no_stop,) = requests.handle(stop_wanted(directory=None))

    assert isinstance(no_savepoint, RefuseSnapshot)
    assert "batch job" in no_savepoint.cause.message
    assert isinstance(no_checkpoint, RefuseSnapshot)
    assert "batch job" in no_checkpoint.cause.message
    assert isinstance(no_stop, RefuseStop)
    assert "cancel it" in no_stop.why
