"""The jobs of an environment that have not ended: their uids are taken, and their code is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flykka.errors import DuplicateUidError
from flykka.spark_bridge.operators.code_registry import uids_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from flykka.client.job_client import JobClient
    from flykka.spark_bridge.operators.code_registry import CodeRegistry


class EnvironmentJobs:
    """The jobs of one environment. Iterating gives the clients of those that have not ended."""

    def __init__(self, registry: CodeRegistry) -> None:
        self._registry = registry
        self._clients: list[JobClient] = []

    def __iter__(self) -> Iterator[JobClient]:
        return (client for client in self._clients if not client.done())

    def add(self, client: JobClient) -> None:
        """Keep the code of this job until it has ended."""
        self._clients.append(client)

    def let_go(self) -> None:
        """Let go of the code of jobs that have ended."""
        self._clients = list(self)
        self._registry.retain(client.job_graph for client in self._clients)

    def refuse_uids(self, wanted: Collection[str]) -> None:
        """Raise `DuplicateUidError` where a job has one of these: one that restarts must not find another's code."""
        for client in self:
            if taken := sorted(uids_of(client.job_graph).intersection(wanted)):
                raise DuplicateUidError(f"{client.job_name!r} still runs and has the uids {', '.join(taken)}")
