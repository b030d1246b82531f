"""Metrics of this Python process: its memory, CPU time, threads and garbage collector.

The data plane measures the JVM of Spark's driver, whose metrics have Flink's names.
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
"""A function that returns the metrics of the data plane's JVM, with Flink's names. May block."""


def no_jvm() -> Mapping[str, float]:
    return {}


def python_metrics() -> dict[str, float]:
    """Measure the process. Sizes are in bytes, CPU time in ns."""
    memory = f"{_PYTHON}.Memory"
    metrics: dict[str, float] = {
        f"{memory}.Resident.Max": getrusage(RUSAGE_SELF).ru_maxrss * _RSS_UNIT,
        f"{memory}.AllocatedBlocks": sys.getallocatedblocks(),
        f"{_PYTHON}.CPU.Time": time.process_time_ns(),
        f"{_PYTHON}.Threads.Count": threading.active_count(),
    }
    if _STATM.exists():
        pages = int(_STATM.read_text().split()[1])
        metrics[f"{memory}.Resident.Used"] = pages * getpagesize()
    for generation, statistics in enumerate(gc.get_stats()):
        name = f"{_PYTHON}.GarbageCollector.Generation{generation}"
        metrics[f"{name}.Count"] = statistics["collections"]
        metrics[f"{name}.Collected"] = statistics["collected"]
    return metrics
