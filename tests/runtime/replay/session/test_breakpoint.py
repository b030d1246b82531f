"""A breakpoint matches a turn by its actor, its message, and field values."""

from __future__ import annotations

import pytest

from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, DeclineCheckpoint
from flykka.messages.kernel.leader_session import LeaderSessionMessage
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, LeaderSessionId
from flykka.messages.wire.ref import Ref
from flykka.runtime.errors import ReplaySessionError
from flykka.runtime.replay.session.breakpoint import Breakpoint
from flykka.runtime.trace.records import Turn

DECLINE = DeclineCheckpoint(
    job_id=JobId("job"),
    checkpoint_id=7,
    attempt=ExecutionAttemptId("a2"),
    reason=CheckpointDeclineReason.CHECKPOINT_DECLINED,
    cause=SerializedThrowable(type_name="ValueError", message="no"),
)
PATH = "/user/job-manager/job-1/checkpoint-coordinator"


def turn(path: str = PATH) -> Turn:
    return Turn(
        sequence=1,
        now_ms=0,
        recipient=Ref(path, 1),
        sender=None,
        cause=None,
        kind="message",
        message=LeaderSessionMessage(leader_session_id=LeaderSessionId("s"), message=DECLINE),
        effects=(),
        failure=None,
    )


@pytest.mark.parametrize(
    "text",
    [
        "CheckpointCoordinator <- DeclineCheckpoint",
        "checkpoint-coordinator <- DeclineCheckpoint(checkpoint_id=7)",
        "CheckpointCoordinator<-Decline*",
        "Its?lass <- *",
        f"{PATH} <- *",
        "job-manager/*/checkpoint-coordinator <-",
        "DeclineCheckpoint(checkpoint_id=7, attempt=a2)",
        "checkpoint.decline*",
        "<- DeclineCheckpoint",
        "(checkpoint_id=7)",
    ],
)
def test_a_breakpoint_matches_by_actor_message_and_fields(text: str) -> None:
    assert Breakpoint.parse(text).matches(turn(), "ItsClass")


@pytest.mark.parametrize(
    "text",
    [
        "JobMaster <- DeclineCheckpoint",
        "Coordinator <- DeclineCheckpoint",
        "CheckpointCoordinator <- AcknowledgeCheckpoint",
        "DeclineCheckpoint(checkpoint_id=8)",
        "DeclineCheckpoint(colour=7)",
    ],
)
def test_a_breakpoint_does_not_match_other_turns(text: str) -> None:
    assert not Breakpoint.parse(text).matches(turn(), "ItsClass")


def test_a_breakpoint_may_be_a_message_class_with_field_values() -> None:
    assert Breakpoint.of(DeclineCheckpoint, {"checkpoint_id": 7}).matches(turn(), None)
    assert not Breakpoint.of(DeclineCheckpoint, {"checkpoint_id": 8}).matches(turn(), None)
    assert Breakpoint.of("<- Decline*", {"checkpoint_id": 7}).matches(turn(), None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no breakpoint: ''"),
        ("a <- b <- c", "no breakpoint: 'a <- b <- c'; a breakpoint is written as"),
        ("Decline(checkpoint_id)", "'checkpoint_id' in breakpoint 'Decline(checkpoint_id)' is not of the form"),
    ],
)
def test_an_invalid_breakpoint_is_refused_with_an_example(text: str, said: str) -> None:
    with pytest.raises(ReplaySessionError) as refused:
        Breakpoint.parse(text)

    assert said in str(refused.value)


def test_a_breakpoint_is_printed_as_it_was_written() -> None:
    text = "CheckpointCoordinator <- DeclineCheckpoint(checkpoint_id=7)"

    assert str(Breakpoint.parse(text)) == text
    assert str(Breakpoint.of(DeclineCheckpoint, {})) == "* <- DeclineCheckpoint"
