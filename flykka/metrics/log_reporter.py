"""Reports metrics by logging them (Flink's Slf4jReporter)."""

from __future__ import annotations

import logging
from socket import gethostname

from flykka.diagnosis.job_queries import ClusterQueries
from flykka.metrics.collection import collected, fitting_scope
from flykka.metrics.measured import Distribution, Measured, Value

logger = logging.getLogger("flykka.metrics")


class LogReporter:
    """Logs a line for each subject that is measured, at level INFO."""

    target = "the log"

    def __init__(self) -> None:
        self._host = gethostname()

    def report(self, queries: ClusterQueries, now_ms: int) -> None:
        """Log what is measured now. Raises what `queries` raise."""
        if not logger.isEnabledFor(logging.INFO):
            return
        jobs = queries.jobs()
        for each in collected(queries, jobs, fitting_scope(jobs), self._host, now_ms):
            logger.info("%s", line_of(each))

    def close(self) -> None:
        """There is nothing to let go of."""


def line_of(measured: Measured) -> str:
    """The values of a subject, behind its labels: `jobmanager_job[job_name='errors', ...]: numRestarts=0, ...`."""
    labels = ", ".join(f"{name}={value!r}" for name, value in measured.labels.items())
    values = ", ".join(_shown(name, value) for name, value in measured.values.items())
    return f"{measured.scope}[{labels}]: {values}"


def _shown(name: str, value: Value) -> str:
    if isinstance(value, Distribution):
        return ", ".join(f"{name}_{figure}={number:.10g}" for figure, number in value.figures.items())
    return f"{name}={value:.3f}" if isinstance(value, float) and not value.is_integer() else f"{name}={int(value)}"
