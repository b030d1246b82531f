"""Subtasks and attempts of a running job, and of an archived job that failed once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.messages.monitoring.job_details import AttemptDetails
from flykka.messages.tasks.accumulator import AccumulatorSnapshot, AccumulatorType
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.rest.history_gateway import HistoryGateway
from flykka.rest.server import RestServer
from flykka.rest.settings import RestSettings
from tests.actors.test_archives import ended_job
from tests.flykka.rest.conftest import JOB, JOB_PATH, Served

SUBTASK = f"{JOB_PATH}/vertices/sink/subtasks/1"


def rows_counter(rows: int) -> AccumulatorSnapshot:
    return AccumulatorSnapshot(name="rows", type=AccumulatorType.INT_COUNTER, count=rows)


@pytest.fixture
def restarted_job_history(tmp_path: Path) -> Iterator[httpx.Client]:
    """A history server for a job with two attempts of one subtask."""
    job = ended_job(JOB)
    vertices = []
    for vertex in job.vertices:
        first = AttemptDetails(
            attempt=ExecutionAttemptId("first"),
            attempt_number=0,
            state=ExecutionState.FAILED,
            accumulators=(rows_counter(3),),
        )
        subtasks = (
            replace(
                each, current=replace(each.current, attempt_number=1), earlier=(first,), accumulators=(rows_counter(5),)
            )
            for each in vertex.subtasks
        )
        vertices.append(replace(vertex, subtasks=tuple(subtasks)))
    CheckpointStorage(str(tmp_path)).write_archive(replace(job, vertices=tuple(vertices)))
    server = RestServer(RestSettings())
    server.start_history(HistoryGateway(str(tmp_path), lambda: 5_000))
    with httpx.Client(base_url=server.address, timeout=20) as http:
        yield http
    server.close()


def test_a_subtask_is_returned_with_its_current_attempt_as_in_the_list(served: Served) -> None:
    answer = served.http.get(f"/v1{SUBTASK}").json()
    same = served.http.get(f"{SUBTASK}/attempts/0").json()
    listed = served.http.get(f"{JOB_PATH}/vertices/sink").json()["subtasks"][1]

    for each in (answer, same, listed):
        # Time passes between the requests.
        each.pop("duration")
        each.pop("status-duration")
    assert answer == same == listed


def test_unknown_subtasks_and_attempts_are_not_found(served: Served) -> None:
    for path in ("subtasks/2", "subtasks/2/attempts/0", "subtasks/0/attempts/7", "subtasks/0/attempts/7/accumulators"):
        assert served.http.get(f"{JOB_PATH}/vertices/sink/{path}").status_code == 404
    assert served.http.get(f"{JOB_PATH}/vertices/sink/subtasks/1/attempts/7").json()["errors"] == [
        "attempt 7 of subtask 1 is not known: its newest is 0"
    ]


def test_each_attempt_has_its_own_state_and_metrics(restarted_job_history: httpx.Client) -> None:
    def get_json(path: str) -> dict[str, object]:
        answer: dict[str, object] = restarted_job_history.get(f"{SUBTASK}/attempts/{path}").json()
        return answer

    assert (get_json("0")["status"], get_json("0")["attempt"], get_json("1")["attempt"]) == ("FAILED", 0, 1)
    assert get_json("0/accumulators") == {
        "subtask": 1,
        "attempt": 0,
        "id": "first",
        "user-accumulators": [{"name": "rows", "type": "IntCounter", "value": "3"}],
    }
    assert get_json("1/accumulators")["user-accumulators"] == [{"name": "rows", "type": "IntCounter", "value": "5"}]
