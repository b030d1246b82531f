"""The process whose growth is measured: `python -m benchmarks.soak.worker`.

It prints `ready`. Each line of its input is a request: `["start", [source, ...], place, checkpoint interval]`;
`["look", whether garbage is collected first]`, to which it replies with the figures that only the process itself knows;
or `["finish"]`, to which it replies when the job has reached the end of its input. It exits at the end of its input.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Sized
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.engine_process import answering
from benchmarks.latency.flykka_side import FlykkaSide
from benchmarks.latency.works import WorkName
from flykka.messages.monitoring.job_details import RequestJobVertexDetails, SubtasksOfVertex
from flykka.messages.tasks.task import TaskIOMetrics

_ANSWER_SECONDS = 30.0
_RELEASE_SECONDS = 10.0

_PATIENCE_SECONDS = 120.0
"""Seconds that the job may take to end after the end of its input."""


def look(side: FlykkaSide, *, collect: bool) -> dict[str, float]:
    """Return the figures of a running job. Batches and their time are counted from its start.

    After a garbage collection these include live memory: bytes on the heap of the JVM, and objects of Python.

    Raises:
        RuntimeError: the job has ended.
    """
    if side.client.done():
        raise RuntimeError(f"the job has ended before its input: {side.client.status}") from side.client.exception()
    context: Any = side.env.spark.sparkContext
    jvm = context._jvm
    stored = list(context._jsc.sc().getRDDStorageInfo())
    reading, last = _source_metrics(side), side.client.details_with(0).last_completed
    found: dict[str, float] = {
        "jvm_pid": jvm.java.lang.ProcessHandle.current().pid(),
        "python_blocks": sys.getallocatedblocks(),
        "stored_blocks": sum(info.numCachedPartitions() for info in stored),
        "batches": reading.batches_in,
        "busy_ms": reading.busy_ms,
        "checkpoint_ms": 0 if last is None else last.duration_ms,
    }
    if collect:
        gc.collect()
        found["python_objects"] = len(gc.get_objects())
        _wait_for_py4j(context._gateway._gateway_client.finalizer_deque)
        jvm.java.lang.System.gc()
        heap = jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage()
        found["live_heap_bytes"] = heap.getUsed()
    return found


def _wait_for_py4j(released: Sized) -> None:
    """Wait until the JVM has released the objects that Python has; Py4J notifies it later, on another thread."""
    deadline = time.monotonic() + _RELEASE_SECONDS
    while len(released) and time.monotonic() < deadline:
        time.sleep(0.05)


def _source_metrics(side: FlykkaSide) -> TaskIOMetrics:
    job_manager = side.env.cluster.system.find("/user/job-manager")
    assert job_manager is not None, "a running job has a JobManager"
    job_id, source = side.client.job_id, side.client.job_graph.vertices[0].vertex_id
    answer = job_manager.ask(
        lambda me: RequestJobVertexDetails(job_id=job_id, reply_to=me, vertex_id=source), timeout=_ANSWER_SECONDS
    )
    assert isinstance(answer, SubtasksOfVertex), f"a question about a vertex is not answered with {answer}"
    return answer.subtasks[0].current.metrics


def main() -> None:
    answers = answering()
    with closing(FlykkaSide()) as side:
        print(json.dumps("ready"), file=answers)
        for line in sys.stdin:
            answer: Any = True
            match json.loads(line):
                case ["start", sources, place, interval]:
                    side.start(WorkName.WINDOWS, [Path(source) for source in sources], Path(place), interval)
                case ["look", collect]:
                    answer = look(side, collect=collect)
                case ["finish"]:
                    side.client.wait(_PATIENCE_SECONDS)
                case unknown:
                    raise ValueError(f"{unknown} is no request")
            print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
