"""Assigns rows to subtasks by key group, in the same way as keyed state.

The key group of a row is Spark's hash of its keys modulo the maximal parallelism. A subtask owns a contiguous range of
key groups, by Flink's rule, and all ranges have about the same size. `repartitionById` puts the rows of each subtask
into separate Spark partitions, so a slice is read without reading the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.spark_bridge.rows.local_rows import LocalRows, local_rows
from flykka.spark_bridge.rows.materialise import Blocks, Materialised, few_rows, materialise, partitions_of
from flykka.spark_bridge.session.session import has_one_machine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from flykka.messages.state.handles import KeyGroupRange
    from flykka.spark_bridge.session.attempt_scope import AttemptScope


_ROW = "__row"

_HASH_BITS = 47
"""The number of low bits of a key's position that are its hash. The bits above are its key group, of at most 32,768."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGroups:
    keys: tuple[Column | str, ...]
    max_parallelism: int

    def of_row(self) -> Column:
        return F.pmod(F.hash(*self.keys), F.lit(self.max_parallelism))

    def position(self) -> Column:
        """Return the position of a row of state: its key group, followed by its hash. It is not negative."""
        hashed = F.xxhash64(*self.keys).bitwiseAND(F.lit((1 << _HASH_BITS) - 1))
        return F.shiftleft(self.of_row().cast("bigint"), _HASH_BITS).bitwiseOR(hashed)

    def position_of_row(self, row: Sequence[Column], row_bits: int) -> Column:
        """Return the position of a row that is itself a key. Rows with equal keys differ only in the last bits."""
        last = F.lit((1 << row_bits) - 1)
        return self.position().bitwiseAND(F.bitwise_not(last)).bitwiseOR(F.xxhash64(*row).bitwiseAND(last))

    def owner(self, parallelism: int) -> Column:
        return F.floor(self.of_row() * F.lit(parallelism) / F.lit(self.max_parallelism)).cast("int")

    def within(self, rows: DataFrame, owned: KeyGroupRange) -> DataFrame:
        return rows.where(self.of_row().between(owned.start, owned.end))


def positions_of(owned: KeyGroupRange) -> tuple[int, int]:
    return owned.start << _HASH_BITS, ((owned.end + 1) << _HASH_BITS) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliced:
    materialised: Materialised
    slices: tuple[DataFrame | LocalRows, ...]
    rows: tuple[int, ...]


def materialise_slices(
    scope: AttemptScope,
    rows: DataFrame,
    groups: KeyGroups,
    parallelism: int,
    numbers: Mapping[str, Column],
    *,
    keeps_order: bool = False,
    are_stored: bool = False,
) -> Sliced:
    """Compute rows into one slice per subtask, in one Spark job that also computes `numbers`.

    With `keeps_order`, the rows of a key keep their order. Few rows are computed in the driver, unless they
    `are_stored` after the next stage.
    """
    owner = groups.owner(parallelism)
    few = None if are_stored else few_rows(scope, rows, numbers)
    if few is not None and isinstance(few.blocks, LocalRows):
        parts = _parts(few.blocks, owner, parallelism)
        if len(parts) == parallelism:
            return Sliced(materialised=few, slices=parts, rows=tuple(each.rows for each in parts))
        rows = few.frame
    per_slice = max(1, rows.sparkSession.sparkContext.defaultParallelism // parallelism)
    partition = owner * F.lit(per_slice) + F.pmod(F.xxhash64(*groups.keys), F.lit(per_slice)).cast("int")
    counts = {f"slice_{index}": F.count_if(owner == index) for index in range(parallelism)}
    # In one process, a task reads its data from each earlier task in turn; from executors, in arrival order.
    is_sorted = keeps_order and not has_one_machine(rows.sparkSession)
    numbered = rows.withColumn(_ROW, F.monotonically_increasing_id()) if is_sorted else rows
    shuffled = numbered.repartitionById(parallelism * per_slice, partition)
    if is_sorted:
        shuffled = shuffled.sortWithinPartitions(_ROW).drop(_ROW)
    made = materialise(scope, shuffled, {**numbers, **counts})
    blocks = made.blocks
    assert isinstance(blocks, Blocks), "the rows were shuffled"
    slices = tuple(
        partitions_of(blocks, range(index * per_slice, (index + 1) * per_slice), rows.sparkSession)
        for index in range(parallelism)
    )
    return Sliced(
        materialised=made,
        slices=slices,
        rows=tuple(int(made.numbers.get(f"slice_{index}", 0)) for index in range(parallelism)),
    )


def _parts(rows: LocalRows, owner: Column, parallelism: int) -> tuple[LocalRows, ...]:
    """Return the rows of each subtask; of fewer subtasks if a key must be computed by a Python worker."""
    if parallelism == 1:
        return (rows,)
    parts = (local_rows(rows.frame.where(owner == index)) for index in range(parallelism))
    return tuple(each for each in parts if each is not None)
