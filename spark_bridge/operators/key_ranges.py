"""The least and the greatest keys of rows that are kept: a few rows with keys beyond them need not look at them.

Ids mostly come in order. What is kept of a day has those of the day, and a row of today meets little of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from flykka.spark_bridge.rows.materialise import is_complete, numbers_of

if TYPE_CHECKING:
    from pyspark.sql import Column

    from flykka.actors.machines.state.segments import Reading

_LEAST, _GREATEST = "least_key", "greatest_key"

_ORDERED = frozenset({"tinyint", "smallint", "int", "bigint", "date", "string"})
"""Types that Python orders as Spark does: no numbers that are none, no collations, no times of a zone."""


class KeyRanges:
    """The ranges of a key over segments, noted as these are first joined, by no job of their own."""

    def __init__(self, key: Column) -> None:
        self._key = key
        self._is_ordered: bool | None = None
        self._wanted = F.min(key).alias(_LEAST), F.max(key).alias(_GREATEST)
        self._observed: WeakKeyDictionary[DataFrame, Observation] = WeakKeyDictionary()

    def watched(self, frame: DataFrame) -> DataFrame:
        """The rows of a segment, whose range is known once an action has run over them."""
        if self._is_ordered is None:
            self._is_ordered = frame.select(self._key).dtypes[0][1] in _ORDERED
        if not self._is_ordered:
            return frame
        observation = Observation()
        self._observed[frame] = observation
        return frame.observe(observation, *self._wanted)

    def of_rows(self, rows: DataFrame) -> tuple[Any, Any]:
        (found,) = rows.select(*self._wanted).collect()
        return found[_LEAST], found[_GREATEST]

    def within(
        self, readings: Sequence[Reading[DataFrame]], few: Callable[[], tuple[Any, Any]]
    ) -> Sequence[Reading[DataFrame]]:
        """The segments that may have keys in the range of a few rows; where none has, the smallest."""
        if not self._observed:
            return readings
        bounds = few()
        found = [reading for reading in readings if self._may_have(reading.segment.frame, bounds)]
        return found or [min(readings, key=lambda reading: reading.segment.rows)]

    def _may_have(self, frame: DataFrame, bounds: tuple[Any, Any]) -> bool:
        observation = self._observed.get(frame)
        if observation is None or not is_complete(observation):
            return True
        known, (least, greatest) = numbers_of(observation), bounds
        first, last = known.get(_LEAST), known.get(_GREATEST)
        if first is None or last is None or least is None:
            return True
        return bool(first <= greatest and least <= last)
