"""The REST server and the metric reporters of an environment's cluster, from its first job to its shutdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from flykka.api.configuration.option import Values
from flykka.api.configuration.rest_settings import rest_settings
from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.local_cluster import LocalCluster
from flykka.errors import ProgramError
from flykka.rest.gateway import RestfulGateway
from flykka.spark_bridge.connectors.connector import require

if TYPE_CHECKING:
    from flykka.api.configuration.resolved_options import EnvironmentOptions
    from flykka.client.datasets import ClusterDatasets
    from flykka.metrics.reporting import Reporter, Reporting
    from flykka.rest.process.metrics import ReadJvm
    from flykka.rest.responses.job_event import LastWork
    from flykka.rest.server import RestServer
    from flykka.spark_bridge.data_plane import SparkDataPlane

_OTEL_INTERVAL_MS = 30_000


class Observation:
    def __init__(self, options: EnvironmentOptions) -> None:
        self._options = options
        self._server: RestServer | None = None
        self._reporting: tuple[Reporting, ...] | None = None

    @property
    def rest_address(self) -> str | None:
        return None if self._server is None else self._server.address

    @property
    def rest_token(self) -> str | None:
        return None if self._server is None else self._server.token

    def enable_rest(self, **options: object) -> None:
        if self._server is not None:
            raise ProgramError(f"there is a REST interface already, at {self._server.address}")
        self._options.set_options({name: value for name, value in options.items() if value is not None}, "enable_rest")
        rest_settings(self._options.values)

    def report(self, **options: object) -> None:
        if "otel" in options:
            _require_open_telemetry()
        if self._reporting is not None:
            raise ProgramError("metrics are reported from the first job on: enable reporters before it is executed")
        self._options.set_options(options)

    def start_cluster(
        self, data_plane: SparkDataPlane, settings: ClusterSettings, datasets: ClusterDatasets
    ) -> LocalCluster:
        from flykka.metrics.reporting import Reporting

        cluster = self.with_rest(
            lambda address: LocalCluster(data_plane, replace(settings, rest_address=address)),
            data_plane.last_work,
            data_plane.jvm_metrics,
            datasets,
        )
        gateway, clock = RestfulGateway(cluster), cluster.system.clock
        reporters = tuple(_reporters(self._options.values))
        self._reporting = tuple(Reporting(reporter, ms, gateway, clock.now_ms) for reporter, ms in reporters)
        for each in self._reporting:
            cluster.system.terminated.add_done_callback(each.stop)
            each.start()
        return cluster

    def with_rest(
        self,
        start: Callable[[str | None], LocalCluster],
        last_work: LastWork,
        read_jvm: ReadJvm,
        datasets: ClusterDatasets | None = None,
    ) -> LocalCluster:
        """Start the cluster by calling `start` with the REST URL. If REST is enabled, serve requests until it ends.

        Raises:
            ClusterError: the address, the token or the certificate cannot be used; no cluster is started.
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
        self._server = server
        cluster.system.terminated.add_done_callback(server.close)
        return cluster

    def shut_down(self, cluster: LocalCluster, *, concludes: bool) -> None:
        for each in self._reporting or ():
            each.close()
        cluster.shutdown(concludes=concludes)


def _reporters(values: Values) -> Iterator[tuple[Reporter, int]]:
    """Yield each reporter with its interval in milliseconds. Raises `MissingExtraError`."""
    if "otel" in values:
        _require_open_telemetry()
        from flykka.metrics.open_telemetry import OpenTelemetryReporter

        yield OpenTelemetryReporter(values["otel"]), values.get("otel_interval", _OTEL_INTERVAL_MS)
    if "metric_log_interval" in values:
        from flykka.metrics.reporting import LogReporter

        yield LogReporter(), values["metric_log_interval"]


def _require_open_telemetry() -> None:
    require("opentelemetry.exporter.otlp.proto.http", extra="otel", what="OpenTelemetry")
