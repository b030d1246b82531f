"""The pictures of a running job: when and where they are sent, and when they end."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from typing import Any

import pytest

from flykka.actors.machines.read_model.job_read_model import JobReadModel
from flykka.ipython import Bundle
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.control.job import CheckpointAborted, JobResultSuccess, JobStatus, JobStatusChanged
from flykka.messages.graph.job_graph import CheckpointingSettings, JobGraph
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.runtime.futures.future import Future
from flykka.views.live_display import PAUSE_SECONDS, LiveDisplay

pytestmark = pytest.mark.slow

JOB = JobId("job")
GRAPH = JobGraph(
    job_id=JOB,
    name="delays",
    vertices=(),
    checkpointing=CheckpointingSettings(directory="/checkpoints"),
    heartbeat_interval_ms=1_000,
    heartbeat_timeout_ms=10_000,
)
PATIENCE = 10.0
RUNNING = JobStatusChanged(job_id=JOB, status=JobStatus.RUNNING, timestamp_ms=0)


class Notebook:
    def __init__(self) -> None:
        self.pictures: queue.Queue[tuple[Bundle, str, bool, float]] = queue.Queue()
        self.outcome: Future[Any] = Future()
        self.model = JobReadModel(GRAPH)
        self.news = 0
        self.display = LiveDisplay(lambda: self.model.details(0), self.outcome, lambda: self.news, publish=self.publish)

    def publish(self, bundle: Bundle, display_id: str, *, update: bool) -> None:
        self.pictures.put((bundle, display_id, update, time.monotonic()))

    def tell(self, message: Message) -> None:
        self.model.on_message(message, 0)
        self.news += 1

    def end(self) -> None:
        self.tell(JobResultSuccess(job_id=JOB))
        self.outcome.try_set(None)

    def next_picture(self) -> tuple[str, str, bool]:
        """Return the text, the display id, and whether the picture replaces an existing one."""
        bundle, display_id, update, _ = self.pictures.get(timeout=PATIENCE)
        assert "delays" in bundle["text/html"]
        return bundle["text/plain"], display_id, update

    def rest(self) -> list[tuple[Bundle, str, bool, float]]:
        self.display.shown_last.get(timeout=PATIENCE)
        return [self.pictures.get_nowait() for _ in range(self.pictures.qsize())]


def test_the_picture_is_sent_at_once_and_updates_replace_it() -> None:
    notebook = Notebook()

    notebook.display.show()
    first, place, new = notebook.next_picture()
    notebook.tell(RUNNING)
    texts = [notebook.next_picture()]
    while "RUNNING" not in texts[-1][0]:
        texts.append(notebook.next_picture())
    notebook.end()

    assert first.startswith("job 'delays' CREATED")
    assert not new
    assert {(display_id, update) for _, display_id, update in texts} == {(place, True)}


def test_at_most_four_pictures_a_second_are_sent() -> None:
    notebook = Notebook()
    notebook.tell(RUNNING)

    notebook.display.show()
    stop = threading.Event()
    teller = threading.Thread(target=tell_until, args=(notebook, stop))
    teller.start()
    times = [notebook.pictures.get(timeout=PATIENCE)[3] for _ in range(4)]
    stop.set()
    teller.join()
    notebook.end()

    assert all(later - earlier > 0.9 * PAUSE_SECONDS for earlier, later in itertools.pairwise(times))


def tell_until(notebook: Notebook, stop: threading.Event) -> None:
    abort = CheckpointAborted(job_id=JOB, checkpoint_id=1, reason=CheckpointDeclineReason.EXPIRED, timestamp_ms=0)
    while not stop.wait(0.01):
        notebook.tell(abort)


def test_the_last_picture_shows_the_end_and_is_not_replaced() -> None:
    notebook = Notebook()
    notebook.tell(RUNNING)

    notebook.display.show()
    notebook.end()
    pictures = notebook.rest()

    assert pictures[-1][0]["text/plain"].startswith("job 'delays' FINISHED")
    assert notebook.pictures.empty()


def test_a_job_displayed_twice_is_updated_in_both_places() -> None:
    notebook = Notebook()

    notebook.display.show()
    notebook.display.show()
    notebook.end()
    pictures = notebook.rest()

    places = {display_id for _, display_id, update, _ in pictures if not update}
    last = [(display_id, bundle["text/plain"].split(",")[0]) for bundle, display_id, _, _ in pictures[-2:]]
    assert len(places) == 2
    assert dict(last) == dict.fromkeys(places, "job 'delays' FINISHED")


def test_an_ended_job_is_shown_in_its_final_state() -> None:
    notebook = Notebook()
    notebook.end()

    notebook.display.show()

    assert notebook.next_picture()[0].startswith("job 'delays' FINISHED")
