"""Flame graphs: sampled stacks of the threads that work for a vertex, merged to a tree (Flink's VertexFlameGraph).

A separate thread samples one vertex at a time. No actor is queried. Only threads of attempts are sampled: stages,
snapshots, commits and work of the engine. Turns of actors are short, run on shared threads, and are not attributed to
vertices. Spark runs a stage in its JVM and Python workers, so the sampled thread only waits for the stage.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import Event, Lock

from flykka.messages.wire.ids import JobId, JobVertexId
from flykka.rest.process.threads import Sample, ThreadSample, modules_by_file, place_of, sample_threads
from flykka.rest.responses.io_metrics import Json

SAMPLES = 100
PAUSE_SECONDS = 0.05
"""The number of samples in a graph, and the seconds between two samples, as in Flink."""

REFRESH_SECONDS = 60.0
"""Seconds after which a requested graph is sampled again. Until then the old graph is returned."""

BUSY_SHARE = 0.1
"""A thread counts as on the CPU in a sample if it used this fraction of the time since the previous sample."""

_KEPT = 16
_WAITING, _TERMINATED = -3, -1
"""Flink's `endTimestamp` while the first samples are being taken, and if the vertex no longer runs."""

_OF_ATTEMPT = re.compile(r"(?P<job>[^_ ]+)_(?P<vertex>.+)_(?P<subtask>\d+)_\d+ ")
"""The name of a thread that works for an attempt: the attempt id, and the work."""


class FlameGraphType(StrEnum):
    """The samples in a graph: all, those of threads on the CPU, or those of waiting threads."""

    FULL = "FULL"
    ON_CPU = "ON_CPU"
    OFF_CPU = "OFF_CPU"


@dataclass(frozen=True, slots=True)
class _Observation:
    subtask: int
    places: tuple[str, ...]
    is_busy: bool


@dataclass(frozen=True, slots=True)
class _SampledVertex:
    seen: tuple[_Observation, ...]
    ended_ms: int
    ended: float


ProcessorTime = Callable[[ThreadSample], int | None]
"""A function that returns a thread's CPU time in ns. None if the platform does not report it or the thread has ended.
"""


def processor_time(thread: ThreadSample) -> int | None:
    try:
        return int(Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()[0])
    except OSError:
        return None


class FlameGraphs:
    def __init__(
        self,
        sample: Sample = sample_threads,
        processor_time: ProcessorTime = processor_time,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], bool] | None = None,
    ) -> None:
        """`clock` returns seconds. `pause` waits, and returns True to stop sampling."""
        self._sample = sample
        self._processor_time = processor_time
        self._clock = clock
        self._closed = Event()
        self._pause = pause or self._closed.wait
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="flykka-rest-flame-graph")
        self._lock = Lock()
        self._sampling: dict[tuple[JobId, JobVertexId], Future[_SampledVertex]] = {}
        self._kept: OrderedDict[tuple[JobId, JobVertexId], _SampledVertex] = OrderedDict()

    def graph(
        self,
        job_id: JobId,
        vertex_id: JobVertexId,
        kind: FlameGraphType,
        subtask: int | None,
        now_ms: Callable[[], int],
    ) -> Json:
        """Return the last graph of a vertex or of one subtask. Starts sampling if there is none or it is old."""
        key = job_id, vertex_id
        with self._lock:
            self._store_finished()
            last = self._kept.get(key)
            is_old = last is None or self._clock() - last.ended >= REFRESH_SECONDS
            if is_old and key not in self._sampling and not self._closed.is_set():
                self._sampling[key] = self._worker.submit(self._sampled, job_id, vertex_id, now_ms)
        if last is None:
            return {"endTimestamp": _WAITING}
        stacks = (each.places for each in last.seen if _matches(each, kind, subtask))
        return {"endTimestamp": last.ended_ms, "data": tree(stacks)}

    def close(self) -> None:
        self._closed.set()
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _store_finished(self) -> None:
        for key in [key for key, sampling in self._sampling.items() if sampling.done()]:
            self._kept[key] = self._sampling.pop(key).result()
            self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)

    def _sampled(self, job_id: JobId, vertex_id: JobVertexId, now_ms: Callable[[], int]) -> _SampledVertex:
        observations: list[_Observation] = []
        modules = modules_by_file()
        before = {each.ident: self._processor_time(each) for each, _ in self._of_vertex(job_id, vertex_id)}
        for _ in range(SAMPLES):
            began = self._clock()
            if self._pause(PAUSE_SECONDS):
                break
            passed_ns = (self._clock() - began) * 1e9
            worked: dict[int, int | None] = {}
            for thread, number in self._of_vertex(job_id, vertex_id):
                worked[thread.ident] = used = self._processor_time(thread)
                is_busy = _used_since(before.get(thread.ident), used) >= BUSY_SHARE * passed_ns
                places = tuple(f"{place_of(each, modules)}:{each.lineno}" for each in reversed(thread.stack or ()))
                observations.append(_Observation(number, places, is_busy))
            before = worked
        return _SampledVertex(tuple(observations), now_ms(), self._clock())

    def _of_vertex(self, job_id: JobId, vertex_id: JobVertexId) -> Iterator[tuple[ThreadSample, int]]:
        for thread in self._sample():
            subtask = subtask_of(thread.name, job_id, vertex_id)
            if subtask is not None and thread.stack:
                yield thread, subtask


def terminated() -> Json:
    return {"endTimestamp": _TERMINATED}


def subtask_of(thread: str, job_id: JobId, vertex_id: JobVertexId) -> int | None:
    match = _OF_ATTEMPT.match(thread)
    if match is None or (match["job"], match["vertex"]) != (job_id, vertex_id):
        return None
    return int(match["subtask"])


def tree(stacks: Iterable[Sequence[str]]) -> Json:
    """Merge stacks, outermost frame first, into nodes with the number of samples that contain them."""
    root = _FrameNode()
    for places in stacks:
        node = root
        node.value += 1
        for place in places:
            node = node.children.setdefault(place, _FrameNode())
            node.value += 1
    return root.to_json("root")


class _FrameNode:
    __slots__ = ("children", "value")

    def __init__(self) -> None:
        self.value = 0
        self.children: dict[str, _FrameNode] = {}

    def to_json(self, name: str) -> Json:
        """Convert the node and its children, to a depth of a hundred frames."""
        below = [child.to_json(place) for place, child in self.children.items()]
        return {"name": name, "value": self.value, "children": below}


def _matches(observation: _Observation, kind: FlameGraphType, subtask: int | None) -> bool:
    if subtask is not None and observation.subtask != subtask:
        return False
    return kind is FlameGraphType.FULL or observation.is_busy is (kind is FlameGraphType.ON_CPU)


def _used_since(before: int | None, now: int | None) -> int:
    return 0 if before is None or now is None else now - before
