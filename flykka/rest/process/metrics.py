"""Metrics of this process, which is Python's: its memory, its processor time, its threads, its garbage collector.

Flink's names stand for a JVM. Those of the JVM of Spark's driver are told under them, by the data plane.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from resource import RUSAGE_SELF, getpagesize, getrusage

_PYTHON = "Status.Python"
_STATM = Path("/proc/self/statm")
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024

ReadJvm = Callable[[], Mapping[str, float]]
"""Measures the JVM in which the data plane works, by Flink's names. It may block."""


def no_jvm() -> Mapping[str, float]:
    """Measure nothing: of a data plane without a JVM."""
    return {}


def python_metrics() -> dict[str, float]:
    """Sizes in bytes, the time of the processor in ns."""
    memory = f"{_PYTHON}.Memory"
    found: dict[str, float] = {
        f"{memory}.Resident.Max": getrusage(RUSAGE_SELF).ru_maxrss * _RSS_UNIT,
        f"{memory}.AllocatedBlocks": sys.getallocatedblocks(),
        f"{_PYTHON}.CPU.Time": time.process_time_ns(),
        f"{_PYTHON}.Threads.Count": threading.active_count(),
    }
    if _STATM.exists():
        pages = int(_STATM.read_text().split()[1])
        found[f"{memory}.Resident.Used"] = pages * getpagesize()
    for generation, counted in enumerate(gc.get_stats()):
        name = f"{_PYTHON}.GarbageCollector.Generation{generation}"
        found[f"{name}.Count"] = counted["collections"]
        found[f"{name}.Collected"] = counted["collected"]
    return found
