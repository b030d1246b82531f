"""The interface of table connectors: options, and the sources and sinks created from these (Flink's
DynamicTableFactory).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flykka.spark_bridge.program.sink import Sink
from flykka.spark_bridge.program.source import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

PRIMARY_KEY, PARTITIONED_BY = "PRIMARY KEY", "PARTITIONED BY"
"""Clauses that errors refer to like options."""

_TRUTH = {"true": True, "false": False}


class OptionError(ValueError):
    """An option or clause of a table is wrong or missing. `option` is its name, or None if it is missing."""

    def __init__(self, text: str, option: str | None = None) -> None:
        super().__init__(text)
        self.option = option


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of a table; their names are case-insensitive."""

    texts: Mapping[str, str]

    def text(self, name: str) -> str | None:
        return next((text for key, text in self.texts.items() if key.lower() == name.lower()), None)

    def required(self, name: str, example: str) -> str:
        text = self.text(name)
        if not text:
            raise OptionError(f"the option {name!r} is missing, as in {name} {example!r}")
        return text

    def number(self, name: str) -> int | None:
        text = self.text(name)
        try:
            return None if text is None else int(text)
        except ValueError:
            raise OptionError(f"the option {name!r} is a whole number, not {text!r}", name) from None

    def rate(self, name: str) -> float | None:
        text = self.text(name)
        try:
            return None if text is None else float(text)
        except ValueError:
            raise OptionError(f"the option {name!r} is a number, not {text!r}", name) from None

    def flag(self, name: str) -> bool:
        text = self.text(name) or "false"
        if text.lower() not in _TRUTH:
            raise OptionError(f"the option {name!r} is true or false, not {text!r}", name)
        return _TRUTH[text.lower()]

    def names(self, name: str) -> tuple[str, ...]:
        return tuple(each.strip() for each in (self.text(name) or "").split(",") if each.strip())

    def with_prefix(self, prefix: str) -> dict[str, str]:
        return {key[len(prefix) :]: text for key, text in self.texts.items() if key.lower().startswith(prefix)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A declared table. `columns` is None if the columns come from existing data."""

    name: str
    columns: StructType | None
    primary_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    options: TableOptions
    session: SparkSession

    def required_columns(self) -> StructType:
        if self.columns is None:
            raise OptionError(f"the columns of {self.name} are missing: CREATE TABLE {self.name} (column type, ...)")
        return self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSink:
    """A sink. With `keys`, a row replaces the row with equal keys. Without keys, rows are appended.

    An `unordered` sink cannot determine which of several rows with equal keys came last. The columns of `sequence_by`
    order the rows of a key. An `unsequenced` sink supports only one row of each key per checkpoint. For a sink without
    keys, `whole_rows` creates a sink that also removes rows, by the column with the kinds of rows. A sink that `shows`
    rows accepts both upserts and appended rows. `encoded` are expressions of the columns that the sink writes, if these
    differ from the table's columns.
    """

    sink: Sink
    keys: tuple[str, ...] = ()
    unordered: bool = False
    shows: bool = False
    encoded: tuple[str, ...] = ()
    sequence_by: tuple[str, ...] = ()
    unsequenced: Sink | None = None
    whole_rows: Callable[[str], Sink] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConnector:
    """A connector with its name in USING.

    `options` are the names of all its options; a name that ends with a dot is a prefix of option names. Other options
    are rejected, unless `check_other` accepts them. `source` returns None for a table that cannot be read as it is
    declared.
    """

    name: str
    options: tuple[str, ...]
    source: Callable[[Declared], Source | None] | None = None
    sink: Callable[[Declared], TableSink] | None = None
    check_other: Callable[[Declared, str], None] | None = None
    has_partitions: bool = False
    has_keys: bool = field(default=False)

    def check(self, declared: Declared) -> None:
        for key in declared.options.texts:
            if not any(_is(key, option) for option in self.options):
                if self.check_other is None:
                    supported = ", ".join(f"{each}*" if each.endswith(".") else each for each in sorted(self.options))
                    raise OptionError(f"{self.name} has no option {key!r}; it has {supported}", key)
                self.check_other(declared, key)
        if declared.partition_by and not self.has_partitions:
            raise OptionError(f"PARTITIONED BY has no meaning for {self.name}, which writes no folders", PARTITIONED_BY)
        if declared.primary_key and not self.has_keys:
            raise OptionError(
                f"PRIMARY KEY has no meaning for {self.name}, which only adds rows: leave it out; tables USING delta"
                " or postgres replace rows",
                PRIMARY_KEY,
            )


def _is(key: str, option: str) -> bool:
    return key.lower().startswith(option) if option.endswith(".") else key.lower() == option
