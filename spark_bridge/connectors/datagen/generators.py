"""Ready columns for a DataGenSource: functions of a row's index, of the seed and of the name of their field.

Chance is a hash of the three, so a row is the same in whatever batch, attempt or run it is made, and two fields are
independent of each other. `F.rand` would start again in every batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.runtime.durations import Duration, duration_ms
from flykka.spark_bridge.functions.times import MICROS_PER_MS, micros_of

if TYPE_CHECKING:
    from pyspark.sql import Column

INDEX = "index"
"""The column that a generator looks at: the number of the row, from 0."""

_LONG_RANGE = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field to generate: what its generator knows beside the index."""

    name: str
    seed: int

    def chance(self) -> Column:
        """A number that nobody expects, of 64 bits, the same for a row whenever it is made."""
        return F.xxhash64(F.lit(self.seed).cast("bigint"), F.lit(self.name), F.col(INDEX))


FieldGenerator = Callable[[Field], "Column"]
"""Makes the column of a field."""


def sequence(start: int = 0, step: int = 1) -> FieldGenerator:
    """`start`, `start + step`, ... as a bigint."""
    return lambda field: F.col(INDEX) * F.lit(step).cast("bigint") + F.lit(start).cast("bigint")


def random_int(minimum: int, maximum: int) -> FieldGenerator:
    """Whole numbers from `minimum` to `maximum`, both included, as a bigint.

    Raises:
        ValueError: the minimum lies above the maximum, or they are further apart than a bigint can say.
    """
    _check_order(minimum, maximum)
    if not -_LONG_RANGE <= minimum <= maximum < _LONG_RANGE or maximum - minimum >= _LONG_RANGE - 1:
        raise ValueError(f"random_int({minimum}, {maximum}) does not fit into a bigint")
    width = maximum - minimum + 1
    return lambda field: F.pmod(field.chance(), F.lit(width).cast("bigint")) + F.lit(minimum).cast("bigint")


def random_double(minimum: float, maximum: float) -> FieldGenerator:
    """Numbers from `minimum` to below `maximum`, as a double. Raises `ValueError` where the minimum lies above."""
    _check_order(minimum, maximum)
    # 53 bits are what a double can tell apart.
    part = 2.0**-53
    return lambda field: (
        F.shiftrightunsigned(field.chance(), 11) * F.lit(part) * F.lit(float(maximum - minimum)) + F.lit(float(minimum))
    )


def choice(*values: str | int | float | bool) -> FieldGenerator:
    """A value drawn from these, which are of one type and equally likely. Raises `ValueError` for none."""
    if not values:
        raise ValueError("choice() needs at least one value")
    return lambda field: F.element_at(
        F.array(*(F.lit(value) for value in values)), (F.pmod(field.chance(), F.lit(len(values))) + 1).cast("int")
    )


def timestamps(start: datetime | str, step: Duration) -> FieldGenerator:
    """`start`, `start + step`, ...: a datetime or ISO text, in UTC where it does not say otherwise.

    Raises:
        ValueError: the text is no time.
        DurationError: the step cannot be read, or is negative.
    """
    begin = datetime.fromisoformat(start) if isinstance(start, str) else start
    first = micros_of(begin)
    step_micros = duration_ms(step, "step of the timestamps") * MICROS_PER_MS
    return lambda field: F.timestamp_micros(
        F.col(INDEX) * F.lit(step_micros).cast("bigint") + F.lit(first).cast("bigint")
    )


def _check_order(minimum: float, maximum: float) -> None:
    if minimum > maximum:
        raise ValueError(f"the minimum {minimum} lies above the maximum {maximum}")
