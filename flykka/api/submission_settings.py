"""Settings of the conversation about a job: between its client and the cluster, and inside that. Flink's options."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import ClientHeartbeatSettings, JobGraph
from flykka.runtime.durations import Duration, positive_duration_ms

RPC_TIMEOUT_MS = 10_000
"""Flink's `pekko.ask.timeout`."""


class SubmissionSettings:
    """Setters that return the environment, as Flink's do."""

    def __init__(self) -> None:
        super().__init__()
        self.rpc_timeout_ms = RPC_TIMEOUT_MS
        self.shuts_down_on_attached_exit = False
        self.client_heartbeats = ClientHeartbeatSettings(interval_ms=30_000, timeout_ms=180_000)

    def set_rpc_timeout(self, timeout: Duration) -> Self:
        """Set how long a TaskManager may take to acknowledge that a task was deployed there (`pekko.ask.timeout`).

        A task that is not acknowledged after `timeout`, 10 s unless set, has failed, and is restarted as after any
        other failure. Of many tasks that are deployed together the time counts from the last one acknowledged.

        Raises:
            DurationError: the length of time cannot be read, or is none.
        """
        self.rpc_timeout_ms = positive_duration_ms(timeout, "RPC timeout")
        return self

    def set_shutdown_on_attached_exit(
        self,
        enabled: bool = True,
        *,
        heartbeat_interval: Duration | None = None,
        heartbeat_timeout: Duration | None = None,
    ) -> Self:
        """Cancel a job whose client dies (`execution.shutdown-on-attached-exit`); unless set it runs on.

        The client gives a sign of life every `heartbeat_interval`, in the beginning 30 s. Where there was none for
        `heartbeat_timeout`, in the beginning 3 min, the job is cancelled, and its exception history says why. One that
        is executed with `attached=False` runs on.

        Raises:
            DurationError: a length of time cannot be read, or is none.
            ProgramError: the timeout is not longer than the interval.
        """
        said: dict[str, int] = {}
        if heartbeat_interval is not None:
            said["interval_ms"] = positive_duration_ms(heartbeat_interval, "interval of client heartbeats")
        if heartbeat_timeout is not None:
            said["timeout_ms"] = positive_duration_ms(heartbeat_timeout, "timeout of client heartbeats")
        heartbeats = replace(self.client_heartbeats, **said)
        if heartbeats.timeout_ms <= heartbeats.interval_ms:
            raise ProgramError(
                f"the timeout of client heartbeats ({heartbeats.timeout_ms} ms) must be longer than their interval"
                f" ({heartbeats.interval_ms} ms): every client would be taken for dead"
            )
        self.shuts_down_on_attached_exit, self.client_heartbeats = enabled, heartbeats
        return self


def with_submission_settings(settings: SubmissionSettings, job_graph: JobGraph) -> JobGraph:
    """The job under these settings."""
    heartbeats = settings.client_heartbeats if settings.shuts_down_on_attached_exit else None
    return replace(job_graph, rpc_timeout_ms=settings.rpc_timeout_ms, client_heartbeat=heartbeats)
