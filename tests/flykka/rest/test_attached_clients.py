"""Clients in other processes: their heartbeats, and the end of a job that they wait for."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from flykka.cli.main import main
from flykka.client.rest_cluster_client import ClientHeartbeats, RestClusterClient
from flykka.errors import UnknownJobError
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import Operator
from flykka.messages.tasks.source import SplitsDiscovered
from flykka.messages.wire.ids import JobId, OperatorId
from tests.actors.data_plane import NoData
from tests.flykka.rest.conftest import JOB, JOB_PATH, Serve, Served

pytestmark = pytest.mark.slow

RESULT = f"/v1{JOB_PATH}/execution-result"
NOBODY = JobId("f" * 32)


class NoArrivingSplits:
    interval_ms: int | None = 600_000
    changed: Callable[[], bool] | None = None

    def __init__(self, operator_id: OperatorId) -> None:
        self._operator_id = operator_id

    def discover(self, position: bytes) -> SplitsDiscovered:
        return SplitsDiscovered(
            operator_id=self._operator_id, splits=(), finished=False, begun_at=position, position=position
        )


class Endless(NoData):
    def split_discovery(self, job_id: JobId, operator: Operator) -> NoArrivingSplits:
        return NoArrivingSplits(operator.operator_id)


@pytest.fixture
def served(serve: Serve) -> Served:
    return serve(data_plane=Endless())


@pytest.fixture
def client(served: Served) -> RestClusterClient:
    return RestClusterClient(served.server.address)


def test_a_running_job_has_no_result(served: Served, client: RestClusterClient) -> None:
    answer = served.http.get(RESULT)

    assert (answer.status_code, answer.json()) == (200, {"status": {"id": "IN_PROGRESS"}})
    assert client.job_result(JOB) is None
    assert served.http.get(f"/jobs/{NOBODY}/execution-result").status_code == 404


def test_a_cancelled_job_has_a_cancellation_result(served: Served, client: RestClusterClient) -> None:
    client.cancel(JOB)

    result = client.wait(JOB, timeout=20)

    assert (result.application_status, result.cause, result.accumulators) == ("CANCELED", None, {})
    answer = served.http.get(RESULT).json()
    assert answer == {
        "status": {"id": "COMPLETED"},
        "job-execution-result": {
            "id": JOB,
            "application-status": "CANCELED",
            "accumulator-results": {},
            "net-runtime": result.net_runtime_ms,
        },
    }


def test_a_job_is_cancelled_if_its_attached_client_stops_sending_heartbeats(
    served: Served, client: RestClusterClient
) -> None:
    answer = served.http.patch(f"/v1{JOB_PATH}/clientHeartbeat", json={"expiredTimestamp": 0})

    result = client.wait(JOB, timeout=20)

    assert (answer.status_code, answer.json()) == (202, {})
    assert result.application_status == "CANCELED"
    assert result.cause == (
        "ClientHeartbeatTimeoutError: the client of job 'a <job>' has sent no heartbeat, and the job must end with its"
        " client"
    )
    (entry,) = served.http.get(f"{JOB_PATH}/exceptions").json()["exceptionHistory"]["entries"]
    assert entry["exceptionName"] == "ClientHeartbeatTimeoutError"


def test_a_waiting_client_keeps_its_job_alive(served: Served, client: RestClusterClient) -> None:
    with pytest.raises(TimeoutError, match="has not ended after 0 seconds"):
        client.wait(JOB, timeout=0, heartbeats=ClientHeartbeats())
    client.report_client_heartbeat(JOB, round(1_000 * time.time()) + 60_000)

    assert served.job.status is JobStatus.RUNNING


@pytest.mark.parametrize("body", [{}, {"expiredTimestamp": "soon"}, {"expiredTimestamp": True}])
def test_a_heartbeat_states_its_expiry(served: Served, body: dict[str, object]) -> None:
    answer = served.http.patch(f"{JOB_PATH}/clientHeartbeat", json=body)

    assert answer.status_code == 400
    assert "'expiredTimestamp' must be a time in ms" in answer.json()["errors"][0]


@pytest.mark.parametrize("job_id", [NOBODY, JobId("x")])
def test_a_heartbeat_for_an_unknown_job_is_refused(client: RestClusterClient, job_id: JobId) -> None:
    with pytest.raises(UnknownJobError):
        client.report_client_heartbeat(job_id, 0)


def test_an_attached_command_prints_the_end_of_the_job(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    served.http.patch(f"{JOB_PATH}/clientHeartbeat", json={"expiredTimestamp": 0})

    code = main(["attach", "-sae", "--address", served.server.address, JOB])

    output = capsys.readouterr()
    assert code == 130
    assert f"job 'a <job>' ({JOB}) was cancelled after " in output.out
    assert "ClientHeartbeatTimeoutError: the client of job" in output.err
