"""Settings of the scheduler: whether jobs wait for all slots that they want, or run with those that there are."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from flykka.actors.machines.job_graph.job_graph_generator import RescalingSettings
from flykka.api.streams.program import one_of
from flykka.messages.graph.job_graph import SchedulerType
from flykka.runtime.durations import Duration, duration_ms


class SchedulerSettings:
    """Setters that return the environment."""

    rescaling: RescalingSettings

    def set_scheduler(self, scheduler: SchedulerType | str) -> Self:
        """Set the scheduler of streaming jobs (Flink's jobmanager.scheduler); the enum or its name, in either case.

        `default`, what holds unless set, waits until a job has all its slots. `adaptive` runs it with those that there
        are, from one subtask of each operator up to the parallelism that the program says: it begins with fewer where
        no more come in time, takes more when there are more, and goes on with fewer where a TaskManager is lost for
        good. Every failure restarts all tasks of such a job. Batch jobs always have the default one.

        Raises:
            ProgramError: there is no such scheduler.
        """
        chosen = one_of(SchedulerType, scheduler.upper(), "scheduler")
        self.rescaling = replace(self.rescaling, scheduler_type=chosen)
        return self

    def set_resource_wait_timeout(self, timeout: Duration) -> Self:
        """Set how long a job of the adaptive scheduler waits for all slots, until it begins with those that there are.

        10 seconds unless set.

        Raises:
            DurationError: it is no length of time.
        """
        waits = duration_ms(timeout, "resource wait timeout")
        self.rescaling = replace(self.rescaling, resource_wait_timeout_ms=waits)
        return self

    def set_rescale_cooldown(self, pause: Duration) -> Self:
        """Set how long a job of the adaptive scheduler goes on as it is before it takes slots that have come.

        30 seconds unless set: each time all of its tasks restart.

        Raises:
            DurationError: it is no length of time.
        """
        self.rescaling = replace(self.rescaling, rescale_cooldown_ms=duration_ms(pause, "rescale cooldown"))
        return self
