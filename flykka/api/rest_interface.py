"""The HTTP interface of an environment's cluster: asked for in the program, or by `flykka run`."""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING, Self

from flykka.api.launch import current_launch
from flykka.errors import ClusterError, ProgramError
from flykka.spark_bridge.connectors.extras import require

if TYPE_CHECKING:
    from flykka.cluster.local_cluster import LocalCluster
    from flykka.rest.server import RestServer
    from flykka.rest.settings import RestSettings


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

    def _with_rest(self, cluster: LocalCluster) -> LocalCluster:
        """The cluster, asked over HTTP from now to its end where that is wanted. Raises `ClusterError`."""
        settings = current_launch().rest_settings(self._rest_settings)
        if settings is None:
            return cluster
        from flykka.rest.server import RestServer

        try:
            self._rest_server = RestServer(cluster, settings)
        except ClusterError:
            # Nobody else has it yet.
            cluster.shutdown(concludes=False)
            raise
        self._rest_server.start()
        cluster.system.terminated.add_done_callback(self._rest_server.close)
        return cluster


def _text(path: str | PathLike[str] | None) -> str | None:
    return None if path is None else fspath(path)
