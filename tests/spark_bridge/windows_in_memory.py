"""Windows on plain values: an engine for the window operator, and a model of Flink's windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from flykka.actors.machines.state.keyed_state import Handle, StatePart
from flykka.actors.machines.state.segments import Reading, Segment, Unwritten
from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
from flykka.messages.state.handles import KeyGroupRange, SharedStateHandle
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.messages.wire.ids import BatchId
from flykka.spark_bridge.operators.operator import Element
from flykka.spark_bridge.operators.window import Arrived
from flykka.spark_bridge.state.local_state import LocalState
from tests.actors.machines.windows.flink_windows import window_starts

Row = tuple[int, int, int]
"""A key, which is also the row's key group, a time, and the number of the row."""
Rows = tuple[Row, ...]
Result = tuple[int, int, tuple[int, ...]]
"""The start of a window, a key, and the row numbers of the rows with this key in the window."""


class Everything:
    """Implements `Holders`; no segment is ever lost."""

    def hold(self, batch_ids: Iterable[BatchId], holder: str) -> None: ...

    def release(self, batch_ids: Iterable[BatchId], holder: str) -> None: ...

    def is_whole(self, batch_id: BatchId) -> bool:
        return True


class RowsBackend:
    """Implements `StateBackend`: rows by their times, in files that are stored in a dict."""

    merge_at = 3

    def __init__(
        self,
        windows: EventTimeWindows,
        files: dict[str, Rows],
        attempt: str,
        owned: KeyGroupRange,
        local: LocalState[Rows],
    ) -> None:
        self.attempt = attempt
        self.owned = owned
        self.local = local
        self._windows = windows
        self._files = files
        self._kept = count()

    def keep(self, rows: Rows) -> Segment[Rows] | None:
        if not rows:
            return None
        times = [time for _, time, _ in rows]
        batch_id = BatchId(f"{self.attempt}/{next(self._kept)}")
        return Segment(batch_id=batch_id, frame=rows, rows=len(rows), first_ms=min(times), last_ms=max(times))

    def read(self, readings: Sequence[Reading[Rows]]) -> Rows:
        return tuple(row for reading in readings for row in rows_of_reading(reading))

    def merge(self, rows: Rows, *, are_oldest: bool) -> Rows:
        return tuple(sorted(rows))

    def load(self, part: StatePart) -> Rows:
        closed_to = part.bounds.closed_to_ms
        return tuple(
            row
            for handle, groups in part.handles
            for row in self._files[handle.path]
            if (groups is None or groups.start <= row[0] <= groups.end)
            and (closed_to is None or max(window_starts(self._windows, row[1])) > closed_to)
        )

    def write(self, parts: Sequence[tuple[str, Unwritten[Rows]]], savepoint: str | None) -> Iterator[SharedStateHandle]:
        for state_id, part in parts:
            path = f"{savepoint or 'shared'}/{state_id}"
            rows = self._files[path] = self.read(part.readings)
            yield SharedStateHandle(state_id=state_id, path=path, rows=len(rows), size_bytes=1, key_groups=self.owned)

    def delete(self, handle: Handle) -> None:
        del self._files[handle.path]

    def has_memory_for(self, batch_ids: Sequence[BatchId]) -> bool:
        return True

    def hold(self, batch_ids: Sequence[BatchId], holder: str | None = None) -> None: ...

    def release(self, batch_ids: Sequence[BatchId], holder: str | None = None) -> None: ...

    def in_background(self, work: Callable[[], None]) -> None:
        work()

    def check(self) -> None: ...


@dataclass(frozen=True, slots=True)
class NumbersOfWindows:
    """Implements `Panes`: the numbers of the rows of each key and window."""

    windows: EventTimeWindows
    backend: RowsBackend

    def arrived(self, element: Element[Any], closed_to_ms: int | None) -> Arrived[Any, Rows]:
        rows = [row for row in element.rows if window_starts(self.windows, row[1])]
        late = [
            row for row in rows if closed_to_ms is not None and max(window_starts(self.windows, row[1])) <= closed_to_ms
        ]
        return Arrived(segment=self.backend.keep(tuple(row for row in rows if row not in late)), late_rows=len(late))

    def fired(self, readings: Sequence[Reading[Rows]], to_ms: int) -> Any:
        """Return the windows of each key that have a row that was not emitted yet."""
        numbers: dict[tuple[int, int], list[int]] = {}
        news: set[tuple[int, int]] = set()
        for reading in readings:
            for key, time, number in rows_of_reading(reading):
                for start in window_starts(self.windows, time):
                    if start <= to_ms and (reading.closed_to_ms is None or start > reading.closed_to_ms):
                        numbers.setdefault((start, key), []).append(number)
                        if reading.emitted_to_ms is None or start > reading.emitted_to_ms:
                            news.add((start, key))
        return tuple((start, key, tuple(sorted(numbers[start, key]))) for start, key in sorted(news))


def rows_of_reading(reading: Reading[Rows]) -> Iterator[Row]:
    for row in reading.segment.frame:
        if (reading.from_ms is None or row[1] >= reading.from_ms) and (
            reading.until_ms is None or row[1] < reading.until_ms
        ):
            yield row


@dataclass(slots=True, kw_only=True)
class FlinkWindows:
    """The windows of the keys of one subtask, with the semantics of Flink's WindowOperator.

    `watermark` is the watermark of the task; windows up to `fired` have fired. Rows that arrive for a fired window are
    emitted at the next firing.
    """

    windows: EventTimeWindows
    allowed_lateness_ms: int
    watermark: int = WATERMARK_MIN
    fired: int = WATERMARK_MIN
    contents: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    news: set[tuple[int, int]] = field(default_factory=set)

    @property
    def is_in_checkpoint(self) -> bool:
        return self.fired != WATERMARK_MIN or bool(self.contents)

    def add(self, rows: Rows) -> int:
        """Put rows into their windows, and return how many rows are too late for all their windows."""
        late = 0
        for key, time, number in rows:
            of_row = window_starts(self.windows, time)
            is_open = [start for start in of_row if not self._is_closed(start, max(self.watermark, self.fired))]
            late += bool(of_row) and not is_open
            for start in is_open:
                self.contents.setdefault((start, key), []).append(number)
                self.news.add((start, key))
        return late

    def fire(self, watermark: int) -> tuple[Result, ...]:
        """Return the windows that end up to a watermark and have a row that was not emitted yet; then remove expired
        windows.
        """
        self.fired = max(self.fired, watermark)
        due = sorted((start, key) for start, key in self.news if start + self.windows.size_ms - 1 <= self.fired)
        self.news -= set(due)
        results = tuple((start, key, tuple(sorted(self.contents[start, key]))) for start, key in due)
        self.contents = {at: rows for at, rows in self.contents.items() if not self._is_closed(at[0], self.fired)}
        return results

    def of_keys(self, keys: KeyGroupRange) -> FlinkWindows:
        """Return the windows of some keys as restored from a checkpoint, without a watermark."""
        windows = deepcopy(self)
        windows.watermark = WATERMARK_MIN
        windows.contents = {at: rows for at, rows in windows.contents.items() if keys.start <= at[1] <= keys.end}
        windows.news = {at for at in windows.news if keys.start <= at[1] <= keys.end}
        return windows

    def _is_closed(self, start: int, watermark: int) -> bool:
        return start + self.windows.size_ms - 1 + self.allowed_lateness_ms <= watermark
