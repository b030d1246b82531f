"""A standby driver, queried over HTTP: it names the leader's address."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from flykka.cli.main import main
from flykka.client.job_manager_gateway import JobManagerGateway
from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.high_availability.stores import FolderSettings
from flykka.cluster.local_cluster import LocalCluster
from flykka.rest.server import RestServer
from flykka.rest.settings import RestSettings
from flykka.runtime.errors import ActorDeadError, AskTimeoutError
from tests.flykka.cluster.test_local_cluster import SilentDataPlane
from tests.flykka.rest.conftest import Served

DEADLINE = 30.0
"""The number of seconds that an election may take."""


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Callable[[], tuple[LocalCluster, str]]]:
    """Starts a driver on the shared store, and returns its cluster and its address."""
    with ExitStack() as last_first:

        def begin() -> tuple[LocalCluster, str]:
            server = RestServer(RestSettings())
            last_first.callback(server.close)
            store = FolderSettings(directory=str(tmp_path))
            cluster = LocalCluster(
                SilentDataPlane(), ClusterSettings(high_availability=store, rest_address=server.address)
            )
            last_first.callback(cluster.shutdown)
            server.start(cluster)
            return cluster, server.address

        yield begin


def first_answer(address: str, status: int) -> httpx.Response:
    deadline = time.monotonic() + DEADLINE
    while (answer := httpx.get(f"{address}/jobs")).status_code != status:
        assert time.monotonic() < deadline, answer.text
    return answer


def test_a_standby_driver_returns_the_address_of_the_leader(
    drive: Callable[[], tuple[LocalCluster, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, leading = drive()
    first_answer(leading, 200)
    _, waiting = drive()

    (error,) = first_answer(waiting, 503).json()["errors"]
    code = main(["list", "--address", waiting])
    cluster.shutdown()
    first_answer(waiting, 200)

    assert error == f"this driver is on standby: another one leads, and answers at {leading}"
    assert (code, error in capsys.readouterr().err) == (1, True)


def test_a_cluster_that_replaces_its_job_manager_returns_a_retry_delay(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(failure: Exception) -> httpx.Response:
        def ask(*asked: object) -> None:
            raise failure

        monkeypatch.setattr(JobManagerGateway, "ask", ask)
        return served.http.get("/jobs")

    gone, stuck = refuse(ActorDeadError("it has ended")), refuse(AskTimeoutError("it is stuck"))

    assert (gone.status_code, gone.headers["retry-after"]) == (503, "3")
    assert (stuck.status_code, "retry-after" in stuck.headers) == (503, False)
