"""Tests that sessions are merged on columns: across gaps, with open sessions, and emitted when they end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from flykka.spark_bridge.worker.parts import PartFunction
from flykka.spark_bridge.worker.process_batch import KeyedBatch, Processed
from flykka.spark_bridge.worker.segment_file import NEXT_EVENT_TIMER, POSITION
from flykka.spark_bridge.worker.sessions import OPEN, FireSessions, MergeSessions

GAP_MS = 10
NO_WATERMARK = -(2**63)
LISTS = pa.list_(pa.int64())
STATE = pa.schema(
    [*((f"{OPEN}{name}", LISTS) for name in ("session_start", "session_end", "n")), (NEXT_EVENT_TIMER, pa.int64())]
)

Session = tuple[int, int, int]
"""The start and the end in ms, and the row count."""


class Keys:
    """Merges and fires the sessions of keys, and stores their state between the calls."""

    def __init__(self) -> None:
        self._state: dict[int, dict[str, Any]] = {}

    def add(self, *rows: tuple[int, int], watermark_ms: int = NO_WATERMARK) -> int:
        """Add rows of a key and a time in ms, and return how many rows are too late."""
        merge = MergeSessions(
            functions={"n": PartFunction.SUM},
            wrapping=frozenset(),
            rows_column="n",
            watermark_ms=watermark_ms,
        )
        processed = self._processed(merge, [key for key, _ in rows], at=[1000 * at for _, at in rows])
        assert processed.rows.num_rows == 0
        return processed.late_rows

    def fire(self, watermark_ms: int) -> list[tuple[int, Session]]:
        rows = self._processed(FireSessions(due_ms=watermark_ms), sorted(self._state)).rows
        assert rows.column_names == ["__key_0", "session_start", "session_end", "n"]
        return [(key, _session(start, end, n)) for key, start, end, n in zip(*rows.to_pydict().values(), strict=True)]

    def open(self, key: int) -> list[Session]:
        state = self._state.get(key)
        lists = () if state is None else (state[name] for name in STATE.names[:3])
        return [_session(*each) for each in zip(*lists, strict=True)]

    def next_timer_ms(self, key: int) -> int | None:
        timer: int | None = self._state[key][NEXT_EVENT_TIMER]
        return timer

    def _processed(
        self, function: MergeSessions | FireSessions, keys: Sequence[int], at: Sequence[int] | None = None
    ) -> Processed:
        own: dict[str, list[int]] = {}
        if at is not None:
            own = {"session_start": [*at], "session_end": [each + 1000 * GAP_MS for each in at], "n": [1] * len(at)}
        batch = KeyedBatch(pa.table({POSITION: pa.array(keys, pa.int64()), "__key_0": keys, **own}))
        known = batch.keys.column("__key_0").to_pylist()
        missing = dict.fromkeys(STATE.names)
        state = pa.Table.from_pylist([self._state.get(key, missing) for key in known], STATE)
        processed = function.process(batch, state)
        assert processed.state.schema == STATE
        changed = range(len(known)) if processed.changed is None else processed.changed.tolist()
        deleted = [False] * len(changed) if processed.deleted is None else processed.deleted.tolist()
        for number, row, is_deleted in zip(changed, processed.state.to_pylist(), deleted, strict=True):
            self._state[known[number]] = row
            if is_deleted:
                del self._state[known[number]]
        return processed


def _session(start: int, end: int, n: int) -> Session:
    return start // 1000, end // 1000, n


@pytest.fixture
def keys() -> Keys:
    return Keys()


def test_rows_without_a_gap_form_one_session(keys: Keys) -> None:
    keys.add((1, 0), (1, 9), (2, 5), (1, 18), (1, 40))

    assert (keys.open(1), keys.open(2)) == ([(0, 28, 3), (40, 50, 1)], [(5, 15, 1)])
    assert (keys.next_timer_ms(1), keys.next_timer_ms(2)) == (28, 15)


@pytest.mark.parametrize(("at", "sessions"), [(10, [(0, 20, 2)]), (11, [(0, 10, 1), (11, 21, 1)])])
def test_a_row_at_the_very_end_belongs_to_the_session(keys: Keys, at: int, sessions: list[Session]) -> None:
    keys.add((1, 0), (1, at))

    assert keys.open(1) == sessions


def test_a_row_between_two_sessions_merges_them(keys: Keys) -> None:
    keys.add((1, 0), (1, 16))
    keys.add((1, 8))

    assert keys.open(1) == [(0, 26, 3)]


def test_a_long_session_absorbs_out_of_order_rows(keys: Keys) -> None:
    keys.add((1, 0), (1, 10), (1, 20), (1, 30), (1, 60))
    keys.add((1, 5), (1, -3), (1, 64))

    assert keys.open(1) == [(-3, 40, 6), (60, 74, 2)]


def test_sessions_are_emitted_when_the_watermark_reaches_their_end(keys: Keys) -> None:
    keys.add((1, 0), (1, 30), (2, 4), (3, 50))

    assert keys.fire(9) == []
    assert keys.fire(14) == [(1, (0, 10, 1)), (2, (4, 14, 1))]
    assert (keys.open(1), keys.open(2), keys.open(3)) == ([(30, 40, 1)], [], [(50, 60, 1)])
    assert keys.next_timer_ms(1) == 40
    assert keys.fire(60) == [(1, (30, 40, 1)), (3, (50, 60, 1))]


def test_rows_of_ended_sessions_are_late_unless_an_open_session_absorbs_them(keys: Keys) -> None:
    keys.add((1, 12))

    assert keys.add((1, 5), (1, 0), (2, 0), (2, 9), (3, 0), (4, 11), watermark_ms=20) == 3
    assert (keys.open(1), keys.open(2), keys.open(3)) == ([(0, 22, 3)], [], [])
    assert keys.open(4) == [(11, 21, 1)]


def test_the_end_of_event_time_ends_all_sessions(keys: Keys) -> None:
    keys.add((1, 0), (2, 100))

    assert len(keys.fire(2**63 - 1)) == 2
