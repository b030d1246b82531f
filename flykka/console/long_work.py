"""What a job is at in Spark where that takes long: looked at by a thread, for Spark may take its time to answer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread

from flykka.messages.tasks.bridge import WorkProgress

logger = logging.getLogger("flykka.console")

Look = Callable[[], tuple[WorkProgress, ...]]
"""Asks Spark how far the work of a job is. May block, and raises whatever Py4J raises where Spark is gone."""

INTERVAL_SECONDS = 0.5


class LongWork:
    """What was seen last of the work of one job, the oldest first."""

    def __init__(self, look: Look, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._look = look
        self._interval_seconds = interval_seconds
        self._seen: tuple[WorkProgress, ...] = ()
        self._closed = Event()

    def start(self) -> None:
        """Look from now on, again and again."""
        Thread(target=self._run, name="flykka looks at Spark", daemon=True).start()

    def seen(self) -> tuple[WorkProgress, ...]:
        """What was seen last. Does not block."""
        return self._seen

    def close(self) -> None:
        """Look no more. Does not wait for Spark."""
        self._closed.set()

    def look(self) -> None:
        """Look once: where Spark does not answer, there is nothing to be seen."""
        try:
            works = self._look()
        except Exception:
            logger.debug("how far Spark is cannot be seen", exc_info=True)
            works = ()
        self._seen = tuple(sorted(works, key=lambda work: -work.age_ms))

    def _run(self) -> None:
        while not self._closed.wait(self._interval_seconds):
            self.look()
