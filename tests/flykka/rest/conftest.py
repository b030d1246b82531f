"""A cluster whose tasks never reply, with a job on it, served over HTTP."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn.server

from flykka.actors.data_plane import DataPlane
from flykka.client.job_client import JobClient
from flykka.client.running_jobs import RunningJob, RunningJobFile
from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.local_cluster import LocalCluster
from flykka.messages.graph.job_graph import CheckpointingSettings
from flykka.messages.wire.ids import JobId
from flykka.rest.gateway import RestfulGateway
from flykka.rest.responses.job_event import LastWork, no_work
from flykka.rest.server import RestServer
from flykka.rest.settings import RestSettings
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.flykka.cluster.test_local_cluster import SilentDataPlane

JOB = JobId("0123456789abcdef0123456789abcdef")
JOB_PATH = f"/jobs/{JOB}"


@dataclass(frozen=True)
class Served:
    """A server, an HTTP client with the server's token, the client of the job, and the gateway to the actors."""

    server: RestServer
    gateway: RestfulGateway
    http: httpx.Client
    job: JobClient

    def ask_without_token(self, method: str, path: str, **more: Any) -> httpx.Response:
        return httpx.request(method, f"{self.server.address}{path}", timeout=20, **more)


Serve = Callable[..., Served]


class _FastSleep:
    """asyncio with a shorter `sleep`, because uvicorn checks only ten times a second whether to stop, and each test has
    a server.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(delay: float) -> None:
        await asyncio.sleep(delay / 20)


@pytest.fixture(scope="package", autouse=True)
def servers_that_end_at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn.server, "asyncio", _FastSleep())
        yield


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    made: list[tuple[LocalCluster, Served, RunningJobFile]] = []

    def begin(
        settings: RestSettings | None = None,
        last_work: LastWork = no_work,
        data_plane: DataPlane | None = None,
        **more: object,
    ) -> Served:
        server = RestServer(settings or RestSettings())
        plane = data_plane or SilentDataPlane()
        cluster = LocalCluster(plane, ClusterSettings(task_managers=2, slots_per_task_manager=2))
        checkpointing = CheckpointingSettings(directory=str(tmp_path / "checkpoints"), interval_ms=60_000)
        graph = graph_of(vertex("source", outputs=1), vertex("sink", 2, reads=("source",)))
        job = cluster.submit(replace(graph, job_id=JOB, name="a <job>", checkpointing=checkpointing))
        job.wait_submitted(timeout=10)
        server.start(cluster, last_work)
        headers = {} if server.token is None else {"Authorization": f"Bearer {server.token}"}
        http = httpx.Client(base_url=server.address, timeout=20, headers=headers, **more)  # type: ignore[arg-type]
        running = RunningJob(
            job_id=JOB, name="a <job>", process=os.getpid(), address=server.address, token=server.token
        )
        made.append((cluster, Served(server, RestfulGateway(cluster), http, job), RunningJobFile(running)))
        return made[-1][1]

    yield begin
    for cluster, served, file in made:
        file.remove()
        served.http.close()
        served.server.close()
        cluster.shutdown()


@pytest.fixture
def served(serve: Serve) -> Served:
    return serve()
