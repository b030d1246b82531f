"""Flame graphs: which threads are sampled, how stacks become a tree, and when a new graph is sampled."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from threading import Event
from traceback import FrameSummary
from typing import Any

import pytest

from flykka.messages.wire.ids import JobId, JobVertexId, attempt_id
from flykka.rest.process.flame_graphs import (
    PAUSE_SECONDS,
    REFRESH_SECONDS,
    SAMPLES,
    FlameGraphs,
    FlameGraphType,
    subtask_of,
    tree,
)
from flykka.rest.process.threads import ThreadSample

JOB, VERTEX = JobId("a" * 32), JobVertexId("sink_2")


def thread(name: str, *functions: str) -> ThreadSample:
    """Return a thread whose stack has these functions, outermost first."""
    stack = [FrameSummary("app.py", 7, function) for function in reversed(functions)]
    return ThreadSample(ident=hash(name), native_id=None, name=name, is_daemon=True, stack=stack)


def at_work(subtask: int, *functions: str) -> ThreadSample:
    return thread(f"{attempt_id(JOB, VERTEX, subtask, 3)} stages", *functions)


def test_a_thread_belongs_to_the_vertex_of_the_attempt_in_its_name() -> None:
    def of(name: str) -> int | None:
        return subtask_of(name, JOB, VERTEX)

    assert of(f"{attempt_id(JOB, VERTEX, 11, 0)} end") == 11
    assert of(f"{attempt_id(JOB, JobVertexId('sink'), 2, 0)} end") is None
    assert of(f"{attempt_id(JobId('b' * 32), VERTEX, 2, 0)} end") is None
    assert of("flykka-dispatcher-1") is None


def test_stacks_are_merged_into_a_tree_with_sample_counts() -> None:
    assert tree([("a", "b"), ("a", "c"), ("a", "b")]) == {
        "name": "root",
        "value": 3,
        "children": [
            {
                "name": "a",
                "value": 3,
                "children": [
                    {"name": "b", "value": 2, "children": []},
                    {"name": "c", "value": 1, "children": []},
                ],
            }
        ],
    }


class SampledThreads:
    """Graphs of fake threads, with a clock that only pauses advance; `done` is set after the last pause of a sample."""

    def __init__(self, threads: list[ThreadSample], working: str) -> None:
        self.seconds = 0.0
        self.pauses = 0
        self.done = Event()
        self._threads = threads
        self._used: deque[int] = deque(range(0, 10**12, int(PAUSE_SECONDS * 1e9 / 2)))
        self._working = working
        self.graphs = FlameGraphs(lambda: self._threads, self._processor_time, lambda: self.seconds, self._pause)

    def _processor_time(self, sample: ThreadSample) -> int | None:
        return self._used.popleft() if self._working in sample.name else 0

    def _pause(self, seconds: float) -> bool:
        self.seconds += seconds
        self.pauses += 1
        return False

    def graph(self, kind: FlameGraphType = FlameGraphType.FULL, subtask: int | None = None) -> dict[str, Any]:
        while "data" not in (found := self.ask(kind, subtask)):
            pass
        return found

    def ask(self, kind: FlameGraphType = FlameGraphType.FULL, subtask: int | None = None) -> dict[str, Any]:
        return self.graphs.graph(JOB, VERTEX, kind, subtask, lambda: 42)


@pytest.fixture
def sampled() -> Iterator[SampledThreads]:
    """Two subtasks, the second one busy, and an unrelated thread."""
    threads = [at_work(0, "run", "wait"), at_work(1, "run", "compute"), thread("flykka-rest", "serve")]
    made = SampledThreads(threads, attempt_id(JOB, VERTEX, 1, 3))
    yield made
    made.graphs.close()


def test_a_graph_is_empty_until_all_vertex_threads_are_sampled(sampled: SampledThreads) -> None:
    first, later = sampled.ask(), sampled.graph()

    assert first == {"endTimestamp": -3}
    assert later["endTimestamp"] == 42
    assert (later["data"]["name"], later["data"]["value"]) == ("root", 2 * SAMPLES)
    (run,) = later["data"]["children"]
    assert {(each["name"], each["value"]) for each in run["children"]} == {
        ("app.py.wait:7", SAMPLES),
        ("app.py.compute:7", SAMPLES),
    }


def test_graphs_may_be_filtered_by_subtask_and_by_thread_state(sampled: SampledThreads) -> None:
    def leaf(**asked: Any) -> str:
        (run,) = sampled.graph(**asked)["data"]["children"]
        (only,) = run["children"]
        return str(only["name"])

    assert leaf(subtask=0) == "app.py.wait:7"
    assert leaf(kind=FlameGraphType.ON_CPU) == "app.py.compute:7"
    assert leaf(kind=FlameGraphType.OFF_CPU) == "app.py.wait:7"
    assert sampled.graph(FlameGraphType.ON_CPU, 0)["data"] == {"name": "root", "value": 0, "children": []}


def test_an_old_graph_is_served_until_its_replacement_is_ready(sampled: SampledThreads) -> None:
    sampled.graph()
    sampled.ask()
    assert sampled.pauses == SAMPLES

    sampled.seconds += REFRESH_SECONDS + 1
    while sampled.pauses < 2 * SAMPLES:
        assert sampled.ask()["endTimestamp"] == 42


def test_no_thread_is_sampled_after_close(sampled: SampledThreads) -> None:
    sampled.graphs.close()

    assert sampled.ask() == {"endTimestamp": -3}
    assert sampled.pauses == 0
