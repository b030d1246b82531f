"""The HTTP interface of an environment's cluster: asked for in the program, or by `flykka run`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Self

from flykka.api.configuration.rest_settings import rest_settings
from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.local_cluster import LocalCluster
from flykka.errors import ProgramError

if TYPE_CHECKING:
    from flykka.api.configuration.environment_options import EnvironmentOptions
    from flykka.client.datasets import ClusterDatasets
    from flykka.rest.process.metrics import ReadJvm
    from flykka.rest.responses.attempt_work import LastWork
    from flykka.rest.server import RestServer
    from flykka.spark_bridge.data_plane import SparkDataPlane


class RestInterface:
    """The part of an environment that listens."""

    _options: EnvironmentOptions
    _datasets: ClusterDatasets
    _rest_server: RestServer | None = None

    def enable_rest(
        self,
        address: str | int = 0,
        *,
        token_file: str | PathLike[str] | None = None,
        certificate: str | PathLike[str] | None = None,
        key: str | PathLike[str] | None = None,
        no_token: bool | None = None,
        connections_per_peer: int | None = None,
    ) -> Self:
        """Answer HTTP requests about the jobs at `PORT` or `HOST:PORT`, in the shape of Flink's REST API.

        Port 0 is any that is free; without a host only this machine is answered. Any other address needs a file with a
        token, which every request must bear. Without that file only requests that change something need a token:
        `rest_token`, or none with `no_token`. One address may have `connections_per_peer` connections at a time. It
        begins with the first job.

        Raises:
            MissingExtraError: the extra `web` is not installed.
            ProgramError: the address cannot be read, or needs a token; or the cluster runs already.
        """
        if self._rest_server is not None:
            raise ProgramError(f"there is a REST interface already, at {self._rest_server.address}")
        said = {"rest": address, "rest_token_file": token_file, "rest_certificate": certificate, "rest_key": key}
        said |= {"rest_no_token": no_token, "rest_connections_per_peer": connections_per_peer}
        self._options.say({name: value for name, value in said.items() if value is not None}, "enable_rest")
        rest_settings(self._options.values)
        return self

    @property
    def rest_address(self) -> str | None:
        """The URL of the REST interface; None where there is none, or not yet."""
        return None if self._rest_server is None else self._rest_server.address

    @property
    def rest_token(self) -> str | None:
        """The token that requests which change something must bear; None where they need none, or not yet."""
        return None if self._rest_server is None else self._rest_server.token

    def _start_cluster(
        self, data_plane: SparkDataPlane, settings: ClusterSettings, datasets: ClusterDatasets
    ) -> LocalCluster:
        return self._with_rest(
            lambda address: LocalCluster(data_plane, replace(settings, rest_address=address)),
            data_plane.last_work,
            data_plane.jvm_metrics,
            datasets,
        )

    def _with_rest(
        self,
        start: Callable[[str | None], LocalCluster],
        last_work: LastWork,
        read_jvm: ReadJvm,
        datasets: ClusterDatasets | None = None,
    ) -> LocalCluster:
        """Start the cluster, which is asked over HTTP to its end where that is wanted: it is told at which URL.

        Raises:
            ClusterError: the address, the token or the certificate cannot be used; there is no cluster then.
        """
        settings = rest_settings(self._options.values)
        if settings is None:
            return start(None)
        from flykka.rest.server import RestServer

        server = RestServer(settings)
        try:
            cluster = start(server.address)
        except BaseException:
            server.close()
            raise
        server.start(cluster, last_work, read_jvm, datasets)
        self._rest_server = server
        cluster.system.terminated.add_done_callback(server.close)
        return cluster
