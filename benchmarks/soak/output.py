"""Checks output as it is written: counts the rows, then deletes the files, so that a long run needs little space."""

from __future__ import annotations

from pathlib import Path

from benchmarks.comparison import WrongResultError
from benchmarks.latency.files import Feed
from benchmarks.latency.flykka_side import committed
from benchmarks.latency.works import Ledger, WorkName, rows_of_windows, window_of


class Output:
    """The windows that were visible to readers; `whole` has the time of each complete window, by its start in ms."""

    def __init__(self, folder: Path, feed: Feed) -> None:
        self._folder, self._feed = folder, feed
        self._ledger = Ledger(WorkName.WINDOWS)
        self._rows_of = rows_of_windows(feed)
        self.whole: dict[int, float] = {}

    def read(self) -> None:
        """Count new output, and delete it.

        Raises:
            WrongResultError: rows are duplicated, or in an unknown window.
        """
        files = committed(self._folder)
        self._ledger.add(files)
        for each in files:
            for path in each.files:
                path.unlink()
        if strange := sorted(self._ledger.keys - self._rows_of.keys()):
            raise WrongResultError(f"window {strange[0]} is in the output, and has no rows")
        self.whole = self._ledger.times({start_ms: start_ms for start_ms in self._rows_of}, self._rows_of)

    def check_whole(self) -> None:
        """Raise `WrongResultError` unless every file was counted once."""
        if missing := sorted(self._rows_of.keys() - self.whole.keys()):
            raise WrongResultError(
                f"window {missing[0]} is not complete in the output, nor are {len(missing) - 1} others"
            )

    def committed_at(self, number: int) -> float | None:
        return self.whole.get(window_of(self._feed, number))
