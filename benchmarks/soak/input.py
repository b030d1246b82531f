"""Files that arrive for a long time: written shortly before, and deleted when their rows are committed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import TracebackType

from benchmarks.latency.files import Feed

_FILES_AHEAD = 200
"""The number of files that are written while the same number arrives."""


class Arriving:
    """Lets the files of a feed arrive during the `with` block, in portions.

    `begun` is the time at which the first file is due; `arrivals` are the times of the files that have arrived, by
    their numbers, all in seconds since the epoch.
    """

    def __init__(self, feed: Feed, place: Path) -> None:
        self.arrivals: dict[int, float] = {}
        self._feed, self._place = feed, place
        self._left = Event()
        self._threads = ThreadPoolExecutor(2, "arriving files")
        self._portions = list(_portions(feed))
        self._portions[0].prepare(place)
        self.begun = time.time()
        self._all: Future[None] = self._threads.submit(self._run)

    def __enter__(self) -> Arriving:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        self._threads.shutdown()

    def wait_until(self, second: float) -> bool:
        """Wait until `second` seconds after the start; return False if all files arrive earlier. Re-raises errors."""
        done, _ = wait((self._all,), max(0.0, self.begun + second - time.time()))
        if not done:
            return True
        self._all.result()
        return False

    def wait_all(self) -> None:
        """Wait until all files have arrived. Re-raises the error if writing a file failed."""
        self._all.result()

    def _run(self) -> None:
        for number, portion in enumerate(self._portions):
            following = self._portions[number + 1 : number + 2]
            prepared = [self._threads.submit(each.prepare, self._place) for each in following]
            due = self.begun + (portion.first - self._feed.first) / portion.files_per_s
            if self._left.wait(max(0.0, due - time.time())):
                return
            portion.run(self._place)
            self.arrivals.update(portion.arrivals(self._place))
            for each in prepared:
                each.result()


def _portions(feed: Feed) -> Iterator[Feed]:
    behind = feed.first + feed.files
    for first in range(feed.first, behind, _FILES_AHEAD):
        yield replace(feed, first=first, files=min(_FILES_AHEAD, behind - first))
