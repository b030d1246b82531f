"""ServedProcess: all that a server tells of the process that it is in."""

from __future__ import annotations

from dataclasses import dataclass, field

from flykka.rest.process.flame_graphs import FlameGraphs
from flykka.rest.process.log import ProcessLog
from flykka.rest.process.metrics import ReadJvm, no_jvm
from flykka.rest.process.threads import Sample, sample_threads


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedProcess:
    """Its log from `open` to `close`, its threads, the flame graphs made of them, and the JVM beside it."""

    log: ProcessLog = field(default_factory=ProcessLog)
    flame_graphs: FlameGraphs = field(default_factory=FlameGraphs)
    sample: Sample = sample_threads
    read_jvm: ReadJvm = no_jvm

    def open(self) -> None:
        self.log.attach()

    def close(self) -> None:
        """Keep no log, and sample no threads."""
        self.log.detach()
        self.flame_graphs.close()
