"""Event streams send changes, keep-alive comments and an end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from itertools import chain, repeat
from typing import Any

import httpx
import pytest

from flykka.rest.errors import RestError
from flykka.rest.handlers.events import HEARTBEAT, HEARTBEAT_SECONDS, PACE_SECONDS, STREAMS, changes
from tests.flykka.rest.conftest import JOB, Served

pytestmark = pytest.mark.slow

JOB_EVENTS = f"/jobs/{JOB}/events"


class SleepClock:
    """A clock whose time passes only during a sleep."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def clock(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def frames(answers: Iterator[dict[str, Any]], waiting: SleepClock) -> AsyncIterator[bytes]:
    return changes(lambda: next(answers), lambda: 7, first=next(answers), sleep=waiting.sleep, clock=waiting.clock)


async def test_only_changes_are_sent_and_no_faster_than_the_limit() -> None:
    waiting = SleepClock()
    stream = frames(iter([{"a": 1}, {"a": 1}, {"a": 2}, {"a": 1}]), waiting)

    sent = [(await anext(stream), waiting.seconds) for _ in range(3)]

    assert sent == [
        (b'data: {"now":7,"a":1}\n\n', 0.0),
        (b'data: {"now":7,"a":2}\n\n', 2 * PACE_SECONDS),
        (b'data: {"now":7,"a":1}\n\n', 3 * PACE_SECONDS),
    ]
    assert 1 / PACE_SECONDS <= 4


async def test_a_comment_is_sent_if_nothing_changes() -> None:
    waiting = SleepClock()
    stream = frames(chain([{"a": 1}], repeat({"a": 1})), waiting)
    await anext(stream)

    beats = [(await anext(stream), waiting.seconds) for _ in range(2)]

    assert beats == [(HEARTBEAT, HEARTBEAT_SECONDS), (HEARTBEAT, 2 * HEARTBEAT_SECONDS)]
    assert HEARTBEAT.startswith(b":")


async def test_a_stream_ends_with_the_reason_if_there_is_no_reply() -> None:
    def refuse() -> dict[str, Any]:
        raise RestError(503, "silent")

    stream = changes(refuse, lambda: 7, first={"a": 1}, sleep=SleepClock().sleep)

    sent = [each async for each in stream]

    assert sent[1:] == [b'event: failed\ndata: {"errors":["silent"],"status":503}\n\n']


def first_event(served: Served, path: str) -> dict[str, Any]:
    with served.http.stream("GET", path) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        line = next(answer.iter_lines())
    return dict(json.loads(line.removeprefix("data: ")))


@pytest.mark.parametrize("version", ["", "/v1"])
def test_the_list_of_jobs_is_sent_as_an_event(served: Served, version: str) -> None:
    event = first_event(served, f"{version}/events")

    (job,) = event["jobs"]
    assert (job["id"], job["name"], job["restarts"]) == (JOB, "a <job>", 0)
    assert sum(job["tasks"].values()) == 3
    assert event["now"] > 0


def test_a_job_is_an_event_with_its_graph_and_without_its_subtasks(served: Served) -> None:
    event = first_event(served, JOB_EVENTS)

    assert event["edges"] == [{"from": "source", "to": "sink", "strategy": "REBALANCE"}]
    assert [(each["id"], each["parallelism"]) for each in event["vertices"]] == [("source", 1), ("sink", 2)]
    assert event["checkpoints"]["history"] == []
    assert "subtasks" not in event["vertices"][0]


def test_an_event_is_sent_for_each_change_of_the_job(served: Served) -> None:
    with served.http.stream("GET", JOB_EVENTS) as answer:
        events = (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: "))
        before = next(events)
        served.job.cancel()

        states = [next(event["state"] for event in events if event["state"] != before["state"])]

    assert states[0] in ("CANCELLING", "CANCELED")


def test_an_unknown_job_has_no_events(served: Served) -> None:
    assert served.http.get(f"/jobs/{'f' * 32}/events").status_code == 404
    assert served.http.get("/jobs/zz/events").status_code == 400


def test_open_streams_are_limited_and_a_closed_one_can_be_replaced(served: Served) -> None:
    limits = httpx.Limits(max_connections=STREAMS + 4)
    with httpx.Client(base_url=served.server.address, timeout=20, limits=limits) as http:
        with ExitStack() as streams:
            for _ in range(STREAMS):
                assert streams.enter_context(http.stream("GET", "/events")).status_code == 200
            refused = http.get("/events")

        assert (refused.status_code, refused.json()["errors"][0][:2]) == (503, str(STREAMS))
        deadline = time.monotonic() + 20
        while not _opens(http):
            assert time.monotonic() < deadline


def _opens(http: httpx.Client) -> bool:
    with http.stream("GET", "/events") as answer:
        return answer.status_code == 200


@pytest.mark.slow
def test_the_server_closes_even_if_a_stream_is_open(served: Served) -> None:
    read = threading.Event()

    def watch() -> None:
        with served.http.stream("GET", JOB_EVENTS) as answer:
            try:
                for _ in answer.iter_lines():
                    read.set()
            except httpx.HTTPError:
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert read.wait(20)
    began = time.monotonic()
    served.server.close()

    assert time.monotonic() - began < 4
    watcher.join(20)
    assert not watcher.is_alive()
