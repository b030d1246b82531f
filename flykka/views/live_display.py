"""A job in the output of a cell, live: the picture is replaced while the job runs, and the last one shows its end.

Display ids are all it takes: a frontend puts an update where the id was shown before, whichever cell runs meanwhile.
What a thread publishes is sent under the newest cell (ipykernel has no other for it), so that also a program that runs
a notebook cell by cell, and listens to the running one only, gets the updates of an earlier cell's output.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from flykka.ipython import Bundle, publish
from flykka.messages.monitoring.job_details import JobDetails
from flykka.runtime.futures.future import Future
from flykka.views.job_html import job_html
from flykka.views.job_text import job_text

PAUSE_SECONDS = 0.25
"""Between two pictures: at most four a second."""

TICK_SECONDS = 1.0
"""A picture without news is drawn again after this time: its clock goes on."""

Publish = Callable[..., None]
"""As `flykka.ipython.publish`."""


def job_bundle(details: JobDetails) -> Bundle:
    """The job as HTML and as text; the frontend takes what it can show."""
    return {"text/html": job_html(details), "text/plain": job_text(details)}


class LiveDisplay:
    """The pictures of one job. A thread of its own draws them, from when it is first shown until the job's end.

    Where `news()` has not changed, only clocks have. `shown_last` has a result when nothing will be drawn any more.
    """

    def __init__(
        self,
        details: Callable[[], JobDetails],
        outcome: Future[Any],
        news: Callable[[], int],
        *,
        publish: Publish = publish,
    ) -> None:
        self.shown_last: Future[None] = Future()
        self._details = details
        self._outcome = outcome
        self._news = news
        self._publish = publish
        self._display_ids: list[str] = []
        self._ended = threading.Event()
        self._drawing = threading.Lock()
        self._thread: threading.Thread | None = None

    def show(self) -> None:
        display_id = f"flykka-{uuid4().hex}"
        with self._drawing:
            self._publish(self._picture(), display_id, update=False)
            self._display_ids.append(display_id)
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep_up, name="flykka-live-display", daemon=True)
                self._thread.start()
                self._outcome.add_done_callback(self._ended.set)

    def _keep_up(self) -> None:
        try:
            drawn, drawn_at = -1, -TICK_SECONDS
            while not self._ended.wait(PAUSE_SECONDS):
                heard = self._news()
                if heard != drawn or time.monotonic() - drawn_at >= TICK_SECONDS:
                    drawn, drawn_at = heard, time.monotonic()
                    self._draw()
            self._draw()
        finally:
            self.shown_last.try_set(None)

    def _draw(self) -> None:
        with self._drawing:
            picture = self._picture()
            for display_id in self._display_ids:
                self._publish(picture, display_id, update=True)

    def _picture(self) -> Bundle:
        return job_bundle(self._details())
