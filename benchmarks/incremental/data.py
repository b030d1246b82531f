"""The files of a suite's steps, generated once and reused by later runs."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.incremental.changes import steps
from benchmarks.incremental.suites import Suite

SEED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """The changes of each table in each step, and the rows after some or all of them, as parquet."""

    folder: Path
    suite: Suite
    steps: int

    def changes(self, table: str, step: int) -> Path:
        """Return the file of a table's changes; it does not exist if there are none."""
        return self.folder / "changes" / table / _file(step)

    def rows(self, table: str, step: int) -> Path:
        return next(
            path for number in range(step, -1, -1) if (path := self.folder / "rows" / table / _file(number)).exists()
        )


def prepared(suite: Suite, scale: float, number: int, share: float, *, with_rows_of_all: bool) -> Data:
    """Return the data of a first step and `number` later ones, each of which changes this share of the rows.

    The data includes the rows after the last step, or, with `with_rows_of_all`, the rows after every step.
    """
    name = f"{suite.name}-{scale:g}-{number}-{share:g}-{SEED}{'-all' if with_rows_of_all else ''}"
    folder = Path(tempfile.gettempdir()) / "flykka-benchmark" / name
    if not folder.exists():
        unfinished = folder.with_name(f".{folder.name}-{os.getpid()}")
        _write(Data(folder=unfinished, suite=suite, steps=number), scale, share, with_rows_of_all=with_rows_of_all)
        unfinished.rename(folder)
    return Data(folder=folder, suite=suite, steps=number)


def _write(data: Data, scale: float, share: float, *, with_rows_of_all: bool) -> None:
    for table in data.suite.keys:
        (data.folder / "changes" / table).mkdir(parents=True)
        (data.folder / "rows" / table).mkdir(parents=True)
    for number, step in enumerate(steps(data.suite, scale, data.steps, share, SEED)):
        for table, changes in step.changes.items():
            pq.write_table(changes, data.changes(table, number))
        is_last = number == data.steps
        for table in step.rows if is_last and not with_rows_of_all else step.changes if with_rows_of_all else ():
            pq.write_table(step.rows[table], data.folder / "rows" / table / _file(number))


def _file(step: int) -> str:
    return f"{step:05}.parquet"
