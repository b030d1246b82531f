"""The works: their inputs and sizes, and the columns that must be equal in the outputs of the engines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from benchmarks.comparison import WrongResultError
from benchmarks.keyed.inputs import BEGIN_MS, SPAN_MS, TIME, write_distinct, write_events, write_ids, write_values

ALARM_AFTER_MS = 60_000
"""Milliseconds from the first row of a key to its timer."""

ROW, ALARM = "row", "alarm"

GAP_SECONDS = 30
"""Seconds from the last row of a session to its end."""


class WorkName(StrEnum):
    RUNNING = "running"
    PROCESS_FUNCTION = "process_function"
    PROCESS_TABLE = "process_table"
    SESSIONS = "sessions"
    DEDUPLICATE = "deduplicate"
    LARGE_STATE = "large_state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A work: the function that writes its files, their rows, the total number of keys, and the comparison."""

    write: Callable[[Path, int, int, int], None]
    rows_per_file: int
    keys: int
    files: int
    digest: Callable[[pa.Table], pa.Table]
    truth: Callable[[pa.Table], pa.Table]


def check(who: object, output: Path, source: Path, work: Work) -> None:
    """Raise `WrongResultError` unless the output is the expected one."""
    found, true = work.digest(_read(output)), work.truth(_read(source))
    names = true.column_names
    found, true = (rows.select(names).sort_by([(name, "ascending") for name in names]) for rows in (found, true))
    if not found.cast(true.schema).equals(true):
        raise WrongResultError(
            f"{who} did not compute what it had to: {found.num_rows} rows, and {true.num_rows} are true; the first of"
            f" them {found.slice(0, 3).to_pylist()}, true are {true.slice(0, 3).to_pylist()}"
        )


def _read(folder: Path) -> pa.Table:
    return ds.dataset(sorted(map(str, folder.rglob("*.parquet"))), format="parquet").to_table()


def _newest(rows: pa.Table) -> pa.Table:
    """Return the last count and maximum of each key, which can only grow."""
    return rows.group_by("k").aggregate([("n", "max"), ("m", "max")]).rename_columns(["k", "n", "m"])


def _aggregated(rows: pa.Table) -> pa.Table:
    return rows.group_by("k").aggregate([("v", "count"), ("v", "max")]).rename_columns(["k", "n", "m"])


def _counts_and_alarms(rows: pa.Table) -> pa.Table:
    """Return the number and sum of each key's counts, and its alarms."""
    counts = rows.filter(pc.equal(rows["what"], ROW)).group_by("k").aggregate([("n", "count"), ("n", "sum")])
    counts = counts.rename_columns(["k", "rows", "sum"])
    alarms = rows.filter(pc.equal(rows["what"], ALARM)).group_by("k").aggregate([("n", "count")])
    place = pc.index_in(counts["k"], value_set=alarms["k"])
    return counts.append_column("alarms", pc.fill_null(alarms["n_count"].take(place), 0))


def _counted_once(rows: pa.Table) -> pa.Table:
    """Return each key's counts, and its alarm, which is always raised because each key is in the first file."""
    counted = rows.group_by("k").aggregate([("at", "count"), ("at", "min")])
    n = counted["at_count"]
    total = pc.divide(pc.multiply(n, pc.add(n, 1)), 2)
    return pa.table({"k": counted["k"], "rows": n, "sum": total, "alarms": pa.array([1] * len(n), pa.int64())})


def _ended(sessions: pa.Table) -> pa.Table:
    """Return the sessions that have ended some time before the last row, which both engines emit.

    The watermark of both engines is a second behind the last row, and only flykka ends event time at the end of the
    input.
    """
    ended = sessions.append_column("end_us", sessions["ended"].cast(TIME).cast(pa.int64()))
    return ended.filter(pc.less(ended["end_us"], 1000 * (BEGIN_MS + SPAN_MS - 10_000))).select(["k", "end_us", "n"])


def _sessions(rows: pa.Table) -> pa.Table:
    rows = rows.sort_by([("k", "ascending"), ("at", "ascending")])
    k, at = rows["k"].to_numpy(), rows["at"].cast(pa.int64()).to_numpy()
    gap = GAP_SECONDS * 1_000_000
    firsts = np.flatnonzero(np.append(True, (k[1:] != k[:-1]) | (at[1:] > at[:-1] + gap)))
    counts = np.diff(np.append(firsts, len(k)))
    ended = pa.array(at[firsts + counts - 1] + gap).cast(TIME)
    return _ended(pa.table({"k": k[firsts], "ended": ended, "n": counts}))


def _itself(rows: pa.Table) -> pa.Table:
    return rows


def _distinct(rows: pa.Table) -> pa.Table:
    return rows.group_by("k").aggregate([("at", "min")]).rename_columns(["k", "at"])


WORKS = {
    WorkName.RUNNING: Work(
        write=write_values, rows_per_file=500_000, keys=5_000_000, files=24, digest=_newest, truth=_aggregated
    ),
    WorkName.PROCESS_FUNCTION: Work(
        write=write_events,
        rows_per_file=100_000,
        keys=100_000,
        files=8,
        digest=_counts_and_alarms,
        truth=_counted_once,
    ),
    WorkName.PROCESS_TABLE: Work(
        write=write_events,
        rows_per_file=100_000,
        keys=100_000,
        files=8,
        digest=_counts_and_alarms,
        truth=_counted_once,
    ),
    WorkName.SESSIONS: Work(
        write=write_events, rows_per_file=500_000, keys=200_000, files=12, digest=_ended, truth=_sessions
    ),
    WorkName.DEDUPLICATE: Work(
        write=write_ids, rows_per_file=600_000, keys=10_000_000, files=20, digest=_itself, truth=_distinct
    ),
    WorkName.LARGE_STATE: Work(
        write=write_distinct, rows_per_file=500_000, keys=50_000_000, files=100, digest=_newest, truth=_aggregated
    ),
}
