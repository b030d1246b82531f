"""A batch of keyed rows, brought into the order of its keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flykka.spark_bridge.worker.keys import Rows, key_columns, sorted_by_key
from flykka.spark_bridge.worker.segment_file import POSITION


class KeyedBatch:
    """Rows sorted by position and key, and where the rows of each key begin."""

    def __init__(self, rows: pa.Table) -> None:
        """`rows` have positions and keys beside their own columns. The rows of a key keep their order."""
        rows = rows.combine_chunks()
        positions = rows.column(POSITION).to_numpy()
        self.rows, is_first = sorted_by_key(rows, positions, np.argsort(positions, kind="stable"))
        self.starts: Rows = np.flatnonzero(is_first)
        firsts = self.rows if len(self.starts) == self.rows.num_rows else self.rows.take(self.starts)
        self.keys = firsts.select([POSITION, *key_columns(rows)])
        self.positions: Rows = self.keys.column(POSITION).to_numpy()

    @property
    def has_one_row_of_each(self) -> bool:
        return len(self.starts) == int(self.rows.num_rows)

    def key_of_row(self) -> Rows:
        counts = np.diff(np.append(self.starts, self.rows.num_rows))
        return np.repeat(np.arange(len(self.starts)), counts)
