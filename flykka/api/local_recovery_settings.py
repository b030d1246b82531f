"""The setting of approximate local recovery, by Flink's name."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from flykka.api.streams.stream_graph_generator import Defaults


class LocalRecoverySettings:
    """Setters that return the environment, as Flink's do."""

    defaults: Defaults

    def enable_approximate_local_recovery(self, enabled: bool = True) -> Self:
        """Let tasks before one that has failed run on, and ACCEPT THAT ROWS ARE LOST with each failure.

        Only the task that has failed and those behind it restart, from the last checkpoint. Lost is what was on its way
        to them, and what they had taken in since that checkpoint from tasks that run on. No row is published twice.
        What runs on has nothing to read again, so that a failure far behind costs a few seconds instead of all that was
        read since the checkpoint. It is for results that may be a little too small, such as a live dashboard.

        Of jobs that read streams, whose checkpoints are aligned, whose failover strategy is `region` and whose tasks
        are deployed at once; others are refused when they are executed.
        """
        self.defaults = replace(self.defaults, approximate_local_recovery=bool(enabled))
        return self
