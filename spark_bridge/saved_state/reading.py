"""The keyed state of one operator in a checkpoint, as DataFrames (Flink's State Processor API).

Columns have the names that the program gave: those of keys and of states. Aggregates are kept as parts, such as
`sum(amount)`, from which the program computes its results. Nothing is computed before a DataFrame is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

from flykka.actors.machines.state.keyed_state import restored_keyed_state
from flykka.actors.machines.state.schema_evolution import columns_ddl, columns_of, quoted
from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
from flykka.spark_bridge.errors import SavedStateError
from flykka.spark_bridge.functions.current_key import TimeDomain
from flykka.spark_bridge.functions.times import MICROS_PER_MS
from flykka.spark_bridge.operators.spark_windows import by_window
from flykka.spark_bridge.program.aggregates import TIME
from flykka.spark_bridge.program.stored_columns import stored_keys, stored_values
from flykka.spark_bridge.rows.files import read_parquet
from flykka.spark_bridge.rows.materialise import together
from flykka.spark_bridge.rows.partitioning import KeyGroups
from flykka.spark_bridge.state.file_digests import verify_handles
from flykka.spark_bridge.worker.keys import KEY_PREFIX
from flykka.spark_bridge.worker.listed_state import EVENT_TIMERS, PROCESSING_TIMERS
from flykka.spark_bridge.worker.segment_file import IS_DELETED, POSITION, VERSION

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from flykka.messages.state.handles import OperatorSubtaskState, StateSchema

TIMER_COLUMNS = (("time", "timestamp"), ("domain", "string"))
PANE_START, WINDOW_START, WINDOW_END = "pane_start", "window_start", "window_end"
_WINDOWS = re.compile(r"size=(\d+)ms, slide=(\d+)ms, offset=(-?\d+)ms")
_MERGING = {"sum": F.sum, "min": F.min, "max": F.max}
_LONG_MAX = 2**63 - 1
_NEWEST = "__newest"
_ASKED = "__asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """Folders of rows that count for results later than `closed_to_ms` (None: for all)."""

    paths: tuple[str, ...]
    closed_to_ms: int | None


class SavedState:
    """Keyed state of one operator. Raises `SavedStateError` where it is asked for what the operator does not keep."""

    def __init__(
        self,
        session: SparkSession,
        uid: str,
        schema: StateSchema,
        states: Iterable[OperatorSubtaskState],
        *,
        max_parallelism: int,
        has_timers: bool,
    ) -> None:
        """`states` are those of all subtasks, whose files are verified here.

        Raises:
            CheckpointStorageError: a file is damaged, or not there.
        """
        self.uid = uid
        self.schema = schema
        self.max_parallelism = max_parallelism
        self._session = session
        self._has_timers = has_timers
        kept = list(states)
        # A file has the newest row of each of its keys, and no two subtasks have one key.
        self._has_one_row_of_each = all(len(state.shared) + len(state.exclusive) <= 1 for state in kept)
        self._files = tuple(_files(kept))
        for state in kept:
            verify_handles(session, state.shared)
            verify_handles(session, state.exclusive)

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(columns_of(self.schema.keys))

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of what is kept of each key, or of each key and window."""
        return tuple(columns_of(self.schema.columns))

    @property
    def has_windows(self) -> bool:
        """True if state is kept by key and window."""
        return bool(self.schema.windows)

    @property
    def event_time_windows(self) -> EventTimeWindows:
        """The windows that state is cut into."""
        if not self.has_windows:
            raise SavedStateError(f"{self.uid!r} keeps no windows: table() gives the state of each key")
        cut = _WINDOWS.fullmatch(self.schema.windows)
        if cut is None:
            raise SavedStateError(f"the windows of {self.uid!r}, {self.schema.windows}, cannot be read from outside")
        size, slide, offset = map(int, cut.groups())
        return EventTimeWindows(size_ms=size, slide_ms=slide, offset_ms=offset)

    def keys(self) -> DataFrame:
        if self.has_windows:
            return self.panes().select(*map(_column, self._kept_keys())).distinct()
        return self._newest().select(*self._keys())

    def table(self) -> DataFrame:
        """A row for each key: the keys, and a column for each state, null where a key has none."""
        self._refuse_windows("table()")
        return self._newest().select(*self._keys(), *self._values())

    def values(self, name: str) -> DataFrame:
        """The keys that have a state, and its values: columns of the keys, and the column `name`."""
        self._refuse_windows(f"values({name!r})")
        if name not in self.state_names:
            raise SavedStateError(f"{self.uid!r} has no state {name!r}; it has: {', '.join(self.state_names)}")
        table = self.table().select(*(_column(key) for key in self.key_names if key != name), _column(name))
        return table.where(_column(name).isNotNull())

    def timers(self) -> DataFrame:
        """A row for each timer: the keys, the `time`, and the `domain`, `event-time` or `processing-time`."""
        if not self._has_timers:
            raise SavedStateError(f"{self.uid!r} is no function with timers")
        rows = self._newest()
        domains = ((EVENT_TIMERS, TimeDomain.EVENT_TIME), (PROCESSING_TIMERS, TimeDomain.PROCESSING_TIME))
        return together(
            [
                rows.select(*self._keys(), F.explode(column).alias("time")).select(
                    *map(_column, self.key_names),
                    F.timestamp_millis("time").alias("time"),
                    F.lit(domain.value).alias("domain"),
                )
                for column, domain in domains
            ]
        )

    def windows(self) -> DataFrame:
        """The state of windows that are not over: keys, `window_start`, `window_end`, and a column for each value.

        A row for each key and window; where the rows themselves are kept, one for each row and window.
        """
        windows = self.event_time_windows
        rows = [by_window(windows, rows, closed, _LONG_MAX) for rows, closed in self._open_panes(windows)]
        size = F.lit(windows.size_ms * MICROS_PER_MS)
        bounds = (
            F.timestamp_micros(TIME).alias(WINDOW_START),
            F.timestamp_micros(F.col(TIME) + size).alias(WINDOW_END),
        )
        return self._merged(together(rows)).select(*self._keys(), *bounds, *self._values())

    def panes(self) -> DataFrame:
        """As `windows`, by the stretches that windows are put together from: keys, `pane_start`, and the values.

        Where windows do not overlap each is one pane.
        """
        rows = self._merged(together([rows for rows, _ in self._open_panes(self.event_time_windows)]))
        return rows.select(*self._keys(), F.timestamp_micros(TIME).alias(PANE_START), *self._values())

    def rows(self, limit: int | None = None) -> list[dict[str, Any]]:
        """At most so many rows (None: all) of windows or of the table."""
        rows = self.windows() if self.has_windows else self.table()
        limited = rows if limit is None else rows.limit(limit)
        return collected(limited)

    def lookup(self, name: str, keys: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], Any]:
        """The values of a state of some keys, by key; a key without it is left out.

        Of the files only those stretches are read in which the keys may lie.
        """
        self._refuse_windows(f"the state {name!r} by key")
        if name not in self.state_names:
            raise SavedStateError(f"{self.uid!r} has no state {name!r}; it has: {', '.join(self.state_names)}")
        stored = list(stored_keys(self.schema).values())
        asked = self._asked(keys, stored)
        groups = KeyGroups(keys=tuple(stored), max_parallelism=self.max_parallelism)
        positions = [row[0] for row in asked.select(groups.position()).collect()]
        there = self._all_rows().where(F.col(POSITION).isin(positions))
        alike = reduce(lambda left, right: left & right, (asked[key].eqNullSafe(there[key]) for key in stored))
        kept = self._live(there.join(F.broadcast(asked.select(_ASKED, *stored)), alike).select(_ASKED, there["*"]))
        stored_name = stored_values(self.schema)[name]
        found = kept.select(_ASKED, _column(stored_name)).where(_column(stored_name).isNotNull())
        return {keys[row[_ASKED]]: row[stored_name] for row in collected(found)}

    def _asked(self, keys: Sequence[tuple[Any, ...]], stored: list[str]) -> DataFrame:
        """A row for each key, with its place."""
        types = list(columns_of(self.schema.keys).values())
        try:
            for key in keys:
                # Of anything else Spark would make a text.
                if any(
                    kind == "string" and not isinstance(part, str | None) for part, kind in zip(key, types, strict=True)
                ):
                    raise TypeError(f"not {key!r}")
            schema = columns_ddl([(_ASKED, "int"), *zip(stored, types, strict=True)])
            return self._session.createDataFrame([(place, *key) for place, key in enumerate(keys)], schema)
        except (PySparkException, TypeError, ValueError) as wrong:
            raise SavedStateError(f"the keys of {self.uid!r} are ({self.schema.keys}): {wrong}") from None

    def _refuse_windows(self, what: str) -> None:
        if self.has_windows:
            raise SavedStateError(f"{self.uid!r} keeps state by window, not {what}: windows() gives it")

    def _keys(self) -> list[Column]:
        if self.has_windows and not self.schema.merged_by:
            # Keys are computed from the rows that are kept.
            return []
        return [_column(stored).alias(name) for name, stored in stored_keys(self.schema).items()]

    def _kept_keys(self) -> Iterable[str]:
        return (name for name in self.key_names if self.schema.merged_by or name in self.state_names)

    def _values(self) -> list[Column]:
        return [_column(stored).alias(name) for name, stored in stored_values(self.schema).items()]

    def _newest(self) -> DataFrame:
        return self._live(self._all_rows())

    def _live(self, rows: DataFrame) -> DataFrame:
        """The newest row of each key that has state; `asked` goes with the keys."""
        if self._has_one_row_of_each:
            return rows.where(~F.col(IS_DELETED))
        keys = [name for name in rows.columns if name.startswith(KEY_PREFIX) or name == _ASKED]
        others = [_column(name) for name in rows.columns if name not in keys]
        newest = rows.groupBy(*keys).agg(F.max_by(F.struct(*others), VERSION).alias(_NEWEST))
        return newest.select(*keys, f"{_NEWEST}.*").where(~F.col(IS_DELETED))

    def _all_rows(self) -> DataFrame:
        paths = [path for files in self._files for path in files.paths]
        return read_parquet(self._session, paths) if paths else self._none()

    def _none(self) -> DataFrame:
        """No rows, with all columns."""
        stored = (stored_keys(self.schema), stored_values(self.schema))
        types = (columns_of(self.schema.keys), columns_of(self.schema.columns))
        columns = [(column, types[place][name]) for place in (0, 1) for name, column in stored[place].items()]
        timers = [(column, "array<bigint>") for column in (EVENT_TIMERS, PROCESSING_TIMERS)]
        noted = [(VERSION, "bigint"), (POSITION, "bigint"), (IS_DELETED, "boolean")]
        ddl = columns_ddl([(TIME, "bigint"), *columns, *timers, *noted])
        return self._session.createDataFrame([], ddl)

    def _open_panes(self, windows: EventTimeWindows) -> list[tuple[DataFrame, int | None]]:
        """The rows that windows still need, and the start of the last window that is over."""
        if not self._files:
            return [(self._none(), None)]
        found = []
        for files in self._files:
            rows, closed = read_parquet(self._session, files.paths), files.closed_to_ms
            if closed is not None:
                rows = rows.where(F.col(TIME) >= F.lit(windows.next_start(closed) * MICROS_PER_MS))
            found.append((rows, closed))
        return found

    def _merged(self, rows: DataFrame) -> DataFrame:
        """Panes or windows, each key once, where parts are kept."""
        if not self.schema.merged_by:
            return rows
        types = columns_of(self.schema.columns)
        merged = (
            _MERGING[function](_column(stored)).cast(types[name]).alias(stored)
            for (name, stored), function in zip(stored_values(self.schema).items(), self.schema.merged_by, strict=True)
        )
        return rows.groupBy(TIME, *stored_keys(self.schema).values()).agg(*merged)


def _files(states: Iterable[OperatorSubtaskState]) -> Iterable[_Files]:
    paths: dict[int | None, dict[str, None]] = {}
    for parts in restored_keyed_state(states).parts.values():
        for part in parts:
            for handle, _ in part.handles:
                paths.setdefault(part.bounds.closed_to_ms, {}).setdefault(handle.path)
    return (_Files(paths=tuple(some), closed_to_ms=closed_to) for closed_to, some in paths.items())


def _column(name: str) -> Column:
    return F.col(quoted(name))


def collected(rows: DataFrame) -> list[dict[str, Any]]:
    """Values as functions see them: structs are dicts, and times in UTC, where PySpark has the zone of the system."""
    schema = rows.schema
    return [_struct(row, schema) for row in rows.collect()]


def _value(value: Any, data_type: DataType) -> Any:
    match value, data_type:
        case datetime(), TimestampType():
            return value.astimezone(UTC)
        case list(), ArrayType(elementType=element):
            return [_value(each, element) for each in value]
        case Mapping(), MapType(keyType=key, valueType=held):
            return {_value(each, key): _value(value[each], held) for each in value}
        case tuple(), StructType():
            return _struct(value, data_type)
    return value


def _struct(row: Sequence[Any], data_type: StructType) -> dict[str, Any]:
    return {field.name: _value(value, field.dataType) for field, value in zip(data_type, row, strict=True)}
