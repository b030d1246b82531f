"""The rows of a batch as a function reads them: from one input, or from two merged inputs.

Merged rows have the columns of both inputs, with the number of the input in the name. The columns of the other input
are null. So two inputs are exchanged as one stream, and their columns may have the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flykka.spark_bridge.functions.current_key import NO_SLOT
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.worker.keys import Rows
from flykka.spark_bridge.worker.rows import dicts
from flykka.spark_bridge.worker.time_columns import millis

INPUT = "__input"
"""The column with the number of a row's input: 0 or 1."""


def tagged(number: int, name: str) -> str:
    return f"__{number + 1}_{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsRead:
    """Rows with their event times in ms (None without event time), in processing order.

    If there are two inputs, `inputs` are the input numbers of the rows. `order` are the indices of the rows in the
    table, or None if the order is unchanged. The first `without_key` rows belong to no key.
    """

    rows: list[Row]
    timestamps: list[int | None] | None
    inputs: Sequence[int] | None = None
    order: Rows | None = None
    without_key: int = 0

    def slots(self, key_of_row: Rows) -> list[int]:
        """Return the slots of the rows; `key_of_row` are the slots of the table's rows."""
        slots: list[int] = (key_of_row if self.order is None else key_of_row[self.order]).tolist()
        return [NO_SLOT] * self.without_key + slots[self.without_key :]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneInput:
    columns: tuple[str, ...]
    event_time: EventTime | None

    def read(self, table: pa.Table) -> RowsRead:
        return RowsRead(rows=dicts(table, self.columns), timestamps=self.timestamps(table))

    def timestamps(self, table: pa.Table) -> list[int | None] | None:
        if self.event_time is None:
            return None
        listed: list[int | None] = millis(table.column(self.event_time.column), self.event_time.offset_ms).to_pylist()
        return listed


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoInputs:
    """The columns of two inputs. With `is_broadcast`, rows of the second come first in a batch, and have no key."""

    inputs: tuple[OneInput, OneInput]
    is_broadcast: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (INPUT, *(tagged(number, name) for number, each in enumerate(self.inputs) for name in each.columns))

    def read(self, table: pa.Table) -> RowsRead:
        """Return a batch's rows. Rows of one input keep their order; so do all rows unless one input is broadcast."""
        numbers = table.column(INPUT).to_numpy()
        places = [np.flatnonzero(numbers == number) for number in (0, 1)]
        parts = [self._part(number, table, rows) for number, rows in enumerate(places)]
        order = np.concatenate(places[::-1] if self.is_broadcast else places)
        by_place = None if self.is_broadcast else np.argsort(order, kind="stable")
        have_times = any(part.timestamps is not None for part in parts)
        return RowsRead(
            rows=self._joined([part.rows for part in parts], by_place),
            timestamps=self._joined([part.timestamps or [None] * len(part.rows) for part in parts], by_place)
            if have_times
            else None,
            inputs=(numbers[order] if by_place is None else numbers).tolist(),
            order=order if by_place is None else None,
            without_key=len(places[1]) if self.is_broadcast else 0,
        )

    def _part(self, number: int, table: pa.Table, places: Rows) -> RowsRead:
        """Return the rows of one input, without copying if the batch has only rows of this input."""
        of = self.inputs[number]
        columns = table.select([tagged(number, name) for name in of.columns]).rename_columns(of.columns)
        return of.read(columns if len(places) == len(columns) else columns.take(places))

    def _joined(self, parts: Sequence[list[Any]], by_place: Rows | None) -> list[Any]:
        """Return the values of both inputs: broadcast values first, or in the order of `by_place`."""
        first, second = parts
        if not first or not second:
            return first or second
        if by_place is None:
            return [*second, *first]
        both = [*first, *second]
        return [both[place] for place in by_place.tolist()]


Inputs = OneInput | TwoInputs
