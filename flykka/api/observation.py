"""Views of an environment's cluster for others: asked for in the program, or by `flykka run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from flykka.api.rest_interface import RestInterface
from flykka.errors import ProgramError
from flykka.rest.gateway import RestfulGateway
from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.spark_bridge.connectors.extras import require

if TYPE_CHECKING:
    from flykka.cluster.local_cluster import ClusterSettings, LocalCluster
    from flykka.metrics.reporting import Reporter, Reporting
    from flykka.spark_bridge.data_plane import SparkDataPlane


class Observation(RestInterface):
    """The part of an environment that shows what its cluster does: asked over HTTP, or at intervals."""

    _reporters: tuple[tuple[Reporter, int], ...] = ()
    _reporting: tuple[Reporting, ...] | None = None

    def enable_open_telemetry(self, endpoint: str, *, interval: Duration = "30s") -> Self:
        """Send metrics, and checkpoints and restarts as spans, to a receiver of OTLP by HTTP.

        `endpoint` is its URL, as in `http://localhost:4318`. It begins with the first job, on a thread of its own, and
        ends with the cluster. Where nobody answers there, that is logged once, and jobs go on.

        Raises:
            MissingExtraError: the extra `otel` is not installed.
            ProgramError: the endpoint is no URL; or the cluster runs already.
            DurationError: the interval cannot be read.
        """
        require("opentelemetry.exporter.otlp.proto.http", extra="otel", what="OpenTelemetry")
        from flykka.metrics.open_telemetry import OpenTelemetryReporter

        try:
            reporter = OpenTelemetryReporter(endpoint)
        except ValueError as refused:
            raise ProgramError(str(refused)) from None
        return self._with_reporter(reporter, interval)

    def enable_metric_log(self, interval: Duration = "60s") -> Self:
        """Log metrics with the logger `flykka.metrics`, at level INFO: a line for each subtask, and for each job.

        Raises:
            ProgramError: the cluster runs already.
            DurationError: the interval cannot be read.
        """
        from flykka.metrics.log_reporter import LogReporter

        return self._with_reporter(LogReporter(), interval)

    def _with_reporter(self, reporter: Reporter, interval: Duration) -> Self:
        interval_ms = positive_duration_ms(interval, "interval of reports")
        if self._reporting is not None:
            raise ProgramError("metrics are reported from the first job on: say where before it is executed")
        self._reporters += ((reporter, interval_ms),)
        return self

    def _start_cluster(self, data_plane: SparkDataPlane, settings: ClusterSettings) -> LocalCluster:
        """Start the cluster, asked and reported as far as that is wanted. Raises `ClusterError`."""
        from flykka.metrics.reporting import Reporting

        cluster = super()._start_cluster(data_plane, settings)
        gateway, clock = RestfulGateway(cluster), cluster.system.clock
        self._reporting = tuple(Reporting(reporter, ms, gateway, clock.now_ms) for reporter, ms in self._reporters)
        for each in self._reporting:
            cluster.system.terminated.add_done_callback(each.stop)
            each.start()
        return cluster

    def _shut_down(self, cluster: LocalCluster, *, concludes: bool) -> None:
        """Report for the last time, and shut down. Raises `TerminationTimeoutError`."""
        for each in self._reporting or ():
            each.close()
        cluster.shutdown(concludes=concludes)
