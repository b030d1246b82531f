"""Port for connectors of tables: which options they take, and what becomes of these (Flink's DynamicTableFactory)."""

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
"""Clauses beside the options, that errors are told of by the same way."""

_TRUTH = {"true": True, "false": False}


class OptionError(ValueError):
    """An option of a table is wrong, or one is missing; `option` names it or a clause, None where it is missing."""

    def __init__(self, text: str, option: str | None = None) -> None:
        super().__init__(text)
        self.option = option


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of a table, whose names are told apart by more than their case."""

    given: Mapping[str, str]

    def text(self, name: str) -> str | None:
        return next((text for key, text in self.given.items() if key.lower() == name.lower()), None)

    def needed(self, name: str, example: str) -> str:
        """The text of an option. Raises `OptionError` where there is none."""
        said = self.text(name)
        if not said:
            raise OptionError(f"the option {name!r} is missing, as in {name} {example!r}")
        return said

    def number(self, name: str) -> int | None:
        """A whole number. Raises `OptionError`."""
        said = self.text(name)
        try:
            return None if said is None else int(said)
        except ValueError:
            raise OptionError(f"the option {name!r} is a whole number, not {said!r}", name) from None

    def rate(self, name: str) -> float | None:
        """A number. Raises `OptionError`."""
        said = self.text(name)
        try:
            return None if said is None else float(said)
        except ValueError:
            raise OptionError(f"the option {name!r} is a number, not {said!r}", name) from None

    def flag(self, name: str) -> bool:
        """True or false; false where nothing is said. Raises `OptionError`."""
        said = self.text(name) or "false"
        if said.lower() not in _TRUTH:
            raise OptionError(f"the option {name!r} is true or false, not {said!r}", name)
        return _TRUTH[said.lower()]

    def names(self, name: str) -> tuple[str, ...]:
        return tuple(each.strip() for each in (self.text(name) or "").split(",") if each.strip())

    def behind(self, prefix: str) -> dict[str, str]:
        """The options whose names begin so, by the rest of these."""
        return {key[len(prefix) :]: text for key, text in self.given.items() if key.lower().startswith(prefix)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A table as it was declared. `columns` of None are those that are there."""

    name: str
    columns: StructType | None
    primary_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    options: TableOptions
    session: SparkSession

    def needed_columns(self) -> StructType:
        """The columns. Raises `OptionError` where none are declared."""
        if self.columns is None:
            raise OptionError(f"the columns of {self.name} are missing: CREATE TABLE {self.name} (column type, ...)")
        return self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSink:
    """A sink. With `keys` a row takes the place of the one that agrees with it in these; else rows are added.

    One that is `unordered` cannot tell by itself which of several rows of a key came last.

    One that `shows` only what comes takes both. `encoded` are expressions of the columns that the sink writes, where
    these are others than those of the table.
    """

    sink: Sink
    keys: tuple[str, ...] = ()
    unordered: bool = False
    shows: bool = False
    encoded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConnector:
    """A connector by the name that stands behind USING.

    `options` are the names of all that it takes; one that ends with a dot begins the names of several. What is none of
    them is refused, unless `check_other` knows better. `source` gives None for a table that cannot be read as it is
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
        """Raise `OptionError` where an option, or what stands beside the options, means nothing to the connector."""
        for key in declared.options.given:
            if not any(_is(key, option) for option in self.options):
                if self.check_other is None:
                    known = ", ".join(f"{each}*" if each.endswith(".") else each for each in sorted(self.options))
                    raise OptionError(f"{self.name} has no option {key!r}; it has {known}", key)
                self.check_other(declared, key)
        if declared.partition_by and not self.has_partitions:
            raise OptionError(f"PARTITIONED BY means nothing to {self.name}, which writes no folders", PARTITIONED_BY)
        if declared.primary_key and not self.has_keys:
            raise OptionError(
                f"PRIMARY KEY means nothing to {self.name}, which only adds rows: leave it out; rows take the place of"
                " others in tables USING delta or postgres",
                PRIMARY_KEY,
            )


def _is(key: str, option: str) -> bool:
    return key.lower().startswith(option) if option.endswith(".") else key.lower() == option
