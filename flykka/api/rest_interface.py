"""The HTTP interface of an environment's cluster: asked for in the program, or by `flykka run`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Self

from flykka.api.launch import current_launch
from flykka.cluster.local_cluster import ClusterSettings, LocalCluster
from flykka.errors import ProgramError
from flykka.spark_bridge.connectors.extras import require

if TYPE_CHECKING:
    from flykka.rest.responses.attempt_work import LastWork
    from flykka.rest.server import RestServer
    from flykka.rest.settings import RestSettings
    from flykka.spark_bridge.data_plane import SparkDataPlane


class RestInterface:
    """The part of an environment that listens."""

    _rest_settings: RestSettings | None = None
    _rest_server: RestServer | None = None

    def enable_rest(
        self,
        address: str | int = 0,
        *,
        token_file: str | PathLike[str] | None = None,
        certificate: str | PathLike[str] | None = None,
        key: str | PathLike[str] | None = None,
    ) -> Self:
        """Answer HTTP requests about the jobs at `PORT` or `HOST:PORT`, in the shape of Flink's REST API.

        Port 0 is any that is free; without a host only this machine is answered. Any other address needs a file with a
        token, which every request must bear. It begins with the first job.

        Raises:
            MissingExtraError: the extra `web` is not installed.
            ProgramError: the address cannot be read, or needs a token; or the cluster runs already.
        """
        from flykka.rest.settings import RestSettings

        require("uvicorn", extra="web", what="the REST interface")
        if self._rest_server is not None:
            raise ProgramError(f"there is a REST interface already, at {self._rest_server.address}")
        try:
            self._rest_settings = RestSettings.at(
                address, token_file=_text(token_file), certificate=_text(certificate), key=_text(key)
            )
        except ValueError as refused:
            raise ProgramError(str(refused)) from None
        return self

    @property
    def rest_address(self) -> str | None:
        """The URL of the REST interface; None where there is none, or not yet."""
        return None if self._rest_server is None else self._rest_server.address

    def _start_cluster(self, data_plane: SparkDataPlane, settings: ClusterSettings) -> LocalCluster:
        return self._with_rest(
            lambda address: LocalCluster(data_plane, replace(settings, rest_address=address)), data_plane.last_work
        )

    def _with_rest(self, start: Callable[[str | None], LocalCluster], last_work: LastWork) -> LocalCluster:
        """Start the cluster, which is asked over HTTP to its end where that is wanted: it is told at which URL.

        Raises:
            ClusterError: the address, the token or the certificate cannot be used; there is no cluster then.
        """
        settings = current_launch().rest_settings(self._rest_settings)
        if settings is None:
            return start(None)
        require("uvicorn", extra="web", what="the REST interface")
        from flykka.rest.server import RestServer

        server = RestServer(settings)
        try:
            cluster = start(server.address)
        except BaseException:
            server.close()
            raise
        server.start(cluster, last_work)
        self._rest_server = server
        cluster.system.terminated.add_done_callback(server.close)
        return cluster


def _text(path: str | PathLike[str] | None) -> str | None:
    return None if path is None else fspath(path)
