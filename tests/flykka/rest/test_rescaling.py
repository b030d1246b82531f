"""Rescaling over HTTP and from the command line: the bounds of a job, and the history of its rescales."""

from __future__ import annotations

import pytest

from flykka.cli.main import main
from flykka.messages.control.rescaling import (
    Rescale,
    RescalesSnapshot,
    RescaleTerminatedReason,
    RescaleTrigger,
    SchedulerState,
    SchedulerStateSpan,
    VertexRescale,
)
from flykka.messages.wire.ids import JobVertexId
from flykka.rest.handlers.rescaling import rescales_history, rescales_overview, rescales_summary
from tests.flykka.rest.conftest import JOB, JOB_PATH, Served

pytestmark = pytest.mark.slow

REQUIREMENTS = f"{JOB_PATH}/resource-requirements"


def bounds(lower: int, upper: int) -> dict[str, dict[str, int]]:
    return {"parallelism": {"lowerBound": lower, "upperBound": upper}}


def a_rescale(number: int, reason: RescaleTerminatedReason | None = None, took_ms: int = 0) -> Rescale:
    return Rescale(
        rescale_id=f"{number:032x}",
        requirements_id="f" * 32,
        attempt=number,
        trigger=RescaleTrigger.UPDATE_REQUIREMENT,
        started_ms=1_000,
        vertices=(
            VertexRescale(
                vertex_id=JobVertexId("sink"),
                name="sink",
                slot_sharing_group="default",
                sufficient_parallelism=1,
                desired_parallelism=4,
                pre_parallelism=2,
                post_parallelism=3,
            ),
        ),
        states=(SchedulerStateSpan(state=SchedulerState.EXECUTING, entered_ms=1_000, left_ms=1_500),),
        ended_ms=None if reason is None else 1_000 + took_ms,
        reason=reason,
    )


SNAPSHOT = RescalesSnapshot(
    job_id=JOB,
    rescales=(
        a_rescale(1, RescaleTerminatedReason.SUCCEEDED, 300),
        a_rescale(2, RescaleTerminatedReason.JOB_FINISHED, 100),
        a_rescale(3, RescaleTerminatedReason.SUCCEEDED, 500),
        a_rescale(4),
    ),
    completed=2,
    ignored=1,
)


def test_the_bounds_are_returned_and_can_be_changed(served: Served) -> None:
    assert served.http.get(REQUIREMENTS).json() == {"source": bounds(1, 1), "sink": bounds(2, 2)}

    answer = served.http.put(REQUIREMENTS, json={"sink": bounds(1, 3)})

    assert (answer.status_code, answer.json()) == (200, {})
    assert served.http.get(REQUIREMENTS).json() == {"source": bounds(1, 1), "sink": bounds(1, 3)}
    assert len(served.http.get(f"{JOB_PATH}/rescales/history").json()) == 1


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"sink": {"parallelism": 3}}, "must be of the form"),
        ({"sink": bounds(True, 2)}, "must be of the form"),
        ({"sink": bounds(3, 2)}, "the lower one must be at least 1"),
        ({"other": bounds(1, 2)}, "has no vertex other"),
        ({"sink": bounds(1, 129)}, "its maximum parallelism is 128"),
    ],
)
def test_impossible_bounds_are_refused(served: Served, body: dict[str, object], why: str) -> None:
    answer = served.http.put(REQUIREMENTS, json=body)

    assert answer.status_code == 400
    assert why in answer.json()["errors"][0]


def test_an_unknown_job_has_no_bounds(served: Served) -> None:
    assert served.http.get(f"/jobs/{'1' * 32}/resource-requirements").status_code == 404
    assert served.http.get(f"/jobs/{'1' * 32}/rescales/overview").status_code == 404
    assert served.http.get(f"{JOB_PATH}/rescales/details/unknown").status_code == 404


def test_the_rescale_settings_are_returned(served: Served) -> None:
    answer = served.http.get(f"{JOB_PATH}/rescales/config").json()

    assert answer["executingCooldownTimeoutInMillis"] == 30_000
    assert answer["rescaleOnFailedCheckpointCount"] == 2


def test_the_overview_has_the_last_rescale_of_each_outcome() -> None:
    overview = rescales_overview(SNAPSHOT)

    assert overview["rescalesCounts"] == {"ignored": 1, "inProgress": 1, "completed": 2, "failed": 0}
    assert overview["latest"]["completed"]["rescaleAttemptId"] == 3
    assert overview["latest"]["failed"] is None


def test_the_rescale_history_is_listed_newest_first_with_all_details() -> None:
    newest, *_ = rescales_history(SNAPSHOT)

    assert newest["terminalState"] is None
    assert newest["triggerCause"] == "UPDATE_REQUIREMENT"
    assert newest["vertices"]["sink"]["preRescaleParallelism"] == 2
    [slots] = newest["slots"].values()
    assert (slots["minimalRequiredSlots"], slots["desiredSlots"], slots["postRescaleSlots"]) == (1, 4, 3)
    assert newest["schedulerStates"][0]["durationInMillis"] == 500


def test_the_summary_contains_the_durations_of_rescales() -> None:
    summary = rescales_summary(SNAPSHOT)

    assert summary["rescalesDurationStatsInMillis"]["max"] == 500
    assert summary["ignoredRescalesDurationStatsInMillis"]["avg"] == 100
    assert summary["failedRescalesDurationStatsInMillis"]["p50"] == "NaN"


def test_the_command_rescales_and_prints_the_requirements(capsys: pytest.CaptureFixture[str], served: Served) -> None:
    address = ("--address", served.server.address)

    assert main(["rescale", "--parallelism", "3", "--vertex", "sin=2:4", *address]) == 0
    assert capsys.readouterr().out == ("source: parallelism 1, 1 to 3 required\nsink: parallelism 2, 2 to 4 required\n")
    assert main(["rescale", "--vertex", "s=2", *address]) == 1
    assert "several vertices are 's': 'source', 'sink'" in capsys.readouterr().err
    assert main(["rescale", "-p", "many", *address]) == 1
    assert "'many' is not a parallelism" in capsys.readouterr().err
