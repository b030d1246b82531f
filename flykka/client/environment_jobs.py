"""The jobs of an environment that have not ended: their code is kept, and they can be found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flykka.client.running_jobs import RunningJob, RunningJobFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flykka.client.job_client import JobClient
    from flykka.spark_bridge.operators.code_registry import CodeRegistry


class EnvironmentJobs:
    """The jobs of one environment. Iterating gives the clients of those that have not ended."""

    def __init__(self, registry: CodeRegistry) -> None:
        self._registry = registry
        self._files: dict[JobClient, RunningJobFile] = {}

    def __iter__(self) -> Iterator[JobClient]:
        return (client for client in self._files if not client.done())

    def add(self, client: JobClient, rest_address: str | None, rest_token: str | None) -> None:
        """Keep the code of this job until it has ended, and let it be found by other processes."""
        job = RunningJob(
            job_id=client.job_id,
            name=client.job_name,
            process=os.getpid(),
            address=rest_address,
            token=rest_token,
        )
        self._files[client] = RunningJobFile(job)

    def let_go(self) -> None:
        running = set(self)
        self._forget(client for client in list(self._files) if client not in running)
        self._registry.retain(client.job_graph for client in self._files)

    def close(self) -> None:
        """Let other processes find none of them any more."""
        self._forget(list(self._files))

    def _forget(self, clients: Iterable[JobClient]) -> None:
        for client in clients:
            self._files.pop(client).remove()
