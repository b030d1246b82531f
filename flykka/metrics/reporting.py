"""Sends periodic reports of metrics on a separate thread. No actor creates reports or waits for them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from socket import gethostname
from typing import Protocol

from flykka.diagnosis.job_queries import ClusterQueries
from flykka.metrics.collection import collected, fitting_scope
from flykka.metrics.measured import Distribution, Measured, Value

logger = logging.getLogger("flykka.metrics")

STOP_SECONDS = 5.0


class Reporter(Protocol):
    target: str

    def report(self, queries: ClusterQueries, now_ms: int) -> None:
        """Report the current metrics. Errors are logged, and the next report follows as usual."""

    def close(self) -> None: ...


class Reporting:
    """Runs a reporter periodically from `start` to `close`. Sends a final report, unless the last report failed."""

    def __init__(
        self, reporter: Reporter, interval_ms: int, queries: ClusterQueries, now_ms: Callable[[], int]
    ) -> None:
        self._reporter = reporter
        self._queries = queries
        self._now_ms = now_ms
        self._seconds = interval_ms / 1_000
        self._ends = threading.Event()
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name=f"flykka-metrics {reporter.target}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()

    def close(self) -> None:
        """Send a final report, and wait some seconds for it. The actors must still be running."""
        self.stop()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            while not self._ends.wait(self._seconds):
                self._report()
            if not self._is_failing:
                self._report()
        finally:
            self._reporter.close()

    def _report(self) -> None:
        try:
            self._reporter.report(self._queries, self._now_ms())
        except Exception as raised:  # noqa: BLE001 - the reports of a job must not end for any reason
            if not self._is_failing:
                logger.warning(
                    "metrics could not be reported to %s; retrying every %g s: %s",
                    self._reporter.target,
                    self._seconds,
                    raised,
                )
            self._is_failing = True
            return
        if self._is_failing:
            logger.warning("metrics are reported to %s again", self._reporter.target)
        self._is_failing = False


class LogReporter:
    target = "the log"

    def __init__(self) -> None:
        self._host = gethostname()

    def report(self, queries: ClusterQueries, now_ms: int) -> None:
        if not logger.isEnabledFor(logging.INFO):
            return
        jobs = queries.jobs()
        for each in collected(queries, jobs, fitting_scope(jobs), self._host, now_ms):
            logger.info("%s", line_of(each))

    def close(self) -> None: ...


def line_of(measured: Measured) -> str:
    """Format an object as `jobmanager_job[job_name='errors', ...]: numRestarts=0, ...`."""
    labels = ", ".join(f"{name}={value!r}" for name, value in measured.labels.items())
    values = ", ".join(_value_text(name, value) for name, value in measured.values.items())
    return f"{measured.scope}[{labels}]: {values}"


def _value_text(name: str, value: Value) -> str:
    if isinstance(value, Distribution):
        return ", ".join(f"{name}_{figure}={number:.10g}" for figure, number in value.figures.items())
    return f"{name}={value:.3f}" if isinstance(value, float) and not value.is_integer() else f"{name}={int(value)}"
