"""Changes of generated tables in steps: a changelog per table, and the rows after each step.

The first step inserts all rows. Each later step copies some documents (orders with their line items) under new numbers,
deletes some, and gives some rows of each table the values of other rows. All is drawn from a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.incremental.suites import Suite

ROW_KIND = "row_kind"
_FEWEST = 2
"""The minimum number of copied documents, of deleted documents, and of updated rows of each table, however small the
share.
"""

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The changes of one step by table, without unchanged tables. `rows` are the tables after the step."""

    changes: Mapping[str, pa.Table]
    rows: Mapping[str, pa.Table]


def steps(suite: Suite, scale: float, number: int, share: float, seed: int) -> Iterator[Step]:
    """Generate the first step and `number` later ones, each of which changes this share of the rows."""
    tables = suite.tables(scale)
    yield Step(changes={name: _marked(rows, "+I") for name, rows in tables.items()}, rows=dict(tables))
    random = np.random.default_rng(seed)
    for _ in range(number):
        step = _NextStep(suite, share, tables, random)
        step.run()
        tables = step.rows
        yield Step(changes={name: pa.concat_tables(parts) for name, parts in step.changes.items()}, rows=tables)


@dataclass(slots=True)
class _NextStep:
    suite: Suite
    share: float
    before: Mapping[str, pa.Table]
    random: np.random.Generator
    rows: dict[str, pa.Table] = field(default_factory=dict)
    changes: dict[str, list[pa.Table]] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    """The number of earlier rows of a table, which come first."""

    def run(self) -> None:
        self.rows = dict(self.before)
        for document in self.suite.documents:
            self._replace_documents(document)
        for name in (*(name for document in self.suite.documents for name in document), *self.suite.updated):
            self._update(name)

    def _replace_documents(self, document: Mapping[str, str]) -> None:
        leading = next(iter(document))
        numbers = pc.unique(self.before[leading].column(document[leading])).to_numpy()
        count = self._share(len(numbers), parts=3)
        drawn = self.random.choice(numbers, size=2 * count, replace=False)
        copied, deleted = np.sort(drawn[:count]), pa.array(drawn[count:])
        first_free = int(numbers.max()) + 1
        for name, column in document.items():
            rows = self.before[name]
            is_deleted = pc.is_in(rows.column(column), deleted)
            copies = rows.filter(pc.is_in(rows.column(column), pa.array(copied)))
            place = rows.schema.get_field_index(column)
            fresh = first_free + np.searchsorted(copied, copies.column(column).to_numpy())
            copies = copies.set_column(place, rows.schema.field(place), pa.array(fresh, rows.schema.field(place).type))
            self._add(name, "-D", rows.filter(is_deleted))
            self._add(name, "+I", copies)
            remaining = rows.filter(pc.invert(is_deleted))
            self.kept[name] = remaining.num_rows
            self.rows[name] = pa.concat_tables([remaining, copies])

    def _update(self, name: str) -> None:
        """Give some rows that existed before the step the values of other rows, except for their keys."""
        rows, keys = self.rows[name], self.suite.keys[name]
        kept = self.kept.get(name, rows.num_rows)
        count = min(self._share(kept, parts=3 if name in self.kept else 1), kept)
        places = np.sort(self.random.choice(kept, size=count, replace=False))
        old, values = rows.take(places), rows.take(self.random.integers(rows.num_rows, size=count))
        for key in keys:
            values = values.set_column(values.schema.get_field_index(key), values.schema.field(key), old.column(key))
        self._add(name, "-U", old)
        self._add(name, "+U", values)
        others = np.ones(rows.num_rows, np.bool_)
        others[places] = False
        self.rows[name] = pa.concat_tables([rows.filter(pa.array(others)), values])

    def _add(self, name: str, kind: str, rows: pa.Table) -> None:
        if rows.num_rows:
            self.changes.setdefault(name, []).append(_marked(rows, kind))

    def _share(self, rows: int, *, parts: int) -> int:
        return max(_FEWEST, round(rows * self.share / parts))


def _marked(rows: pa.Table, kind: str) -> pa.Table:
    return rows.append_column(ROW_KIND, pa.array([kind] * rows.num_rows, pa.string()))
