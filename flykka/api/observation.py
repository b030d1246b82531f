"""Views of an environment's cluster for others: asked for in the program, or by `flykka run`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from flykka.api.configuration.option import Values
from flykka.api.rest_interface import RestInterface
from flykka.errors import ProgramError
from flykka.rest.gateway import RestfulGateway
from flykka.runtime.durations import Duration
from flykka.spark_bridge.connectors.extras import require

if TYPE_CHECKING:
    from flykka.client.datasets import ClusterDatasets
    from flykka.cluster.cluster_settings import ClusterSettings
    from flykka.cluster.local_cluster import LocalCluster
    from flykka.metrics.reporting import Reporter, Reporting
    from flykka.spark_bridge.data_plane import SparkDataPlane

_OTEL_INTERVAL_MS = 30_000


class Observation(RestInterface):
    """The part of an environment that shows what its cluster does: asked over HTTP, or at intervals."""

    _reporting: tuple[Reporting, ...] | None = None

    def enable_open_telemetry(self, endpoint: str, *, interval: Duration = "30s") -> Self:
        """Send metrics, and checkpoints and restarts as spans, to a receiver of OTLP by HTTP.

        `endpoint` is its URL, as in `http://localhost:4318`. It begins with the first job, on a thread of its own, and
        ends with the cluster. Where nobody answers there, that is logged once, and jobs go on.

        Raises:
            MissingExtraError: the extra `otel` is not installed.
            ProgramError: the endpoint is no URL, or the interval cannot be read; or the cluster runs already.
        """
        _require_open_telemetry()
        return self._report(otel=endpoint, otel_interval=interval)

    def enable_metric_log(self, interval: Duration = "60s") -> Self:
        """Log metrics with the logger `flykka.metrics`, at level INFO: a line for each subtask, and for each job.

        Raises:
            ProgramError: the interval cannot be read, or the cluster runs already.
        """
        return self._report(metric_log_interval=interval)

    def _report(self, **said: object) -> Self:
        if self._reporting is not None:
            raise ProgramError("metrics are reported from the first job on: say where before it is executed")
        self._options.say(said)
        return self

    def _start_cluster(
        self, data_plane: SparkDataPlane, settings: ClusterSettings, datasets: ClusterDatasets
    ) -> LocalCluster:
        """Start the cluster, asked and reported as far as that is wanted. Raises `ClusterError`."""
        from flykka.metrics.reporting import Reporting

        cluster = super()._start_cluster(data_plane, settings, datasets)
        gateway, clock = RestfulGateway(cluster), cluster.system.clock
        wanted = tuple(_reporters(self._options.values))
        self._reporting = tuple(Reporting(reporter, ms, gateway, clock.now_ms) for reporter, ms in wanted)
        for each in self._reporting:
            cluster.system.terminated.add_done_callback(each.stop)
            each.start()
        return cluster

    def _shut_down(self, cluster: LocalCluster, *, concludes: bool) -> None:
        """Report for the last time, and shut down. Raises `TerminationTimeoutError`."""
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
        from flykka.metrics.log_reporter import LogReporter

        yield LogReporter(), values["metric_log_interval"]


def _require_open_telemetry() -> None:
    require("opentelemetry.exporter.otlp.proto.http", extra="otel", what="OpenTelemetry")
