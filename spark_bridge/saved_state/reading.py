"""The keyed state of one operator in a checkpoint, as DataFrames (Flink's State Processor API).

Columns have the program's names of keys and states. Aggregates are stored as partial aggregates, such as `sum(amount)`,
from which the program computes its results. No rows are read until a DataFrame is evaluated.
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
_REQUESTED = "__asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """Folders of state rows that are needed for results later than `closed_to_ms` (None: for all results)."""

    paths: tuple[str, ...]
    closed_to_ms: int | None


class SavedState:
    """Keyed state of one operator.

    Its methods raise `SavedStateError` if the operator does not have the requested kind of state.
    """

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
        """`states` are those of all subtasks. Raises `CheckpointStorageError` if a file is damaged."""
        self.uid = uid
        self.schema = schema
        self.max_parallelism = max_parallelism
        self._session = session
        self._has_timers = has_timers
        states_of_subtasks = list(states)
        # A file contains only the newest row of each key, and no two subtasks have the same key.
        self._has_one_row_of_each = all(len(state.shared) + len(state.exclusive) <= 1 for state in states_of_subtasks)
        self._files = tuple(_files(states_of_subtasks))
        for state in states_of_subtasks:
            verify_handles(session, state.shared)
            verify_handles(session, state.exclusive)

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(columns_of(self.schema.keys))

    @property
    def state_names(self) -> tuple[str, ...]:
        return tuple(columns_of(self.schema.columns))

    @property
    def has_windows(self) -> bool:
        return bool(self.schema.windows)

    @property
    def event_time_windows(self) -> EventTimeWindows:
        """The windows by which the state is divided. Raises `SavedStateError` if it is not divided by windows."""
        if not self.has_windows:
            raise SavedStateError(f"{self.uid!r} has no windows: table() returns the state of each key")
        cut = _WINDOWS.fullmatch(self.schema.windows)
        if cut is None:
            raise SavedStateError(f"the windows of {self.uid!r}, {self.schema.windows}, cannot be read from outside")
        size, slide, offset = map(int, cut.groups())
        return EventTimeWindows(size_ms=size, slide_ms=slide, offset_ms=offset)

    def keys(self) -> DataFrame:
        if self.has_windows:
            return self.panes().select(*map(_column, self._stored_keys())).distinct()
        return self._newest().select(*self._keys())

    def table(self) -> DataFrame:
        """Return one row per key: the keys, and a column for each state, which is null for a key without this state."""
        self._refuse_windows("table()")
        return self._newest().select(*self._keys(), *self._values())

    def values(self, name: str) -> DataFrame:
        """Return the keys that have a state, and its values: the key columns and the column `name`."""
        self._refuse_windows(f"values({name!r})")
        if name not in self.state_names:
            raise SavedStateError(f"{self.uid!r} has no state {name!r}; it has: {', '.join(self.state_names)}")
        table = self.table().select(*(_column(key) for key in self.key_names if key != name), _column(name))
        return table.where(_column(name).isNotNull())

    def timers(self) -> DataFrame:
        """Return one row per timer: the keys, the `time`, and the `domain`, `event-time` or `processing-time`."""
        if not self._has_timers:
            raise SavedStateError(f"{self.uid!r} is not a function with timers")
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
        """Return the state of windows that have not ended: keys, `window_start`, `window_end`, and a column per value.

        One row per key and window, or per row and window if the state consists of rows.
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
        """Return state like `windows`, but by the panes that make up windows: keys, `pane_start`, and the values.

        Each window that does not overlap others is a single pane.
        """
        rows = self._merged(together([rows for rows, _ in self._open_panes(self.event_time_windows)]))
        return rows.select(*self._keys(), F.timestamp_micros(TIME).alias(PANE_START), *self._values())

    def rows(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return at most `limit` rows (None: all rows) of `windows` or, without windows, of `table`."""
        rows = self.windows() if self.has_windows else self.table()
        limited = rows if limit is None else rows.limit(limit)
        return collected(limited)

    def lookup(self, name: str, keys: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], Any]:
        """Return the values of a state for some keys, by key, without keys that have no value.

        Reads only segments of the files that may contain the keys.
        """
        self._refuse_windows(f"the state {name!r} by key")
        if name not in self.state_names:
            raise SavedStateError(f"{self.uid!r} has no state {name!r}; it has: {', '.join(self.state_names)}")
        stored = list(stored_keys(self.schema).values())
        requested = self._requested(keys, stored)
        groups = KeyGroups(keys=tuple(stored), max_parallelism=self.max_parallelism)
        positions = [row[0] for row in requested.select(groups.position()).collect()]
        there = self._all_rows().where(F.col(POSITION).isin(positions))
        alike = reduce(lambda left, right: left & right, (requested[key].eqNullSafe(there[key]) for key in stored))
        live = self._live(
            there.join(F.broadcast(requested.select(_REQUESTED, *stored)), alike).select(_REQUESTED, there["*"])
        )
        stored_name = stored_values(self.schema)[name]
        values = live.select(_REQUESTED, _column(stored_name)).where(_column(stored_name).isNotNull())
        return {keys[row[_REQUESTED]]: row[stored_name] for row in collected(values)}

    def _requested(self, keys: Sequence[tuple[Any, ...]], stored: list[str]) -> DataFrame:
        types = list(columns_of(self.schema.keys).values())
        try:
            for key in keys:
                # Spark would convert values of other types to strings.
                if any(
                    kind == "string" and not isinstance(part, str | None) for part, kind in zip(key, types, strict=True)
                ):
                    raise TypeError(f"not {key!r}")
            schema = columns_ddl([(_REQUESTED, "int"), *zip(stored, types, strict=True)])
            return self._session.createDataFrame([(place, *key) for place, key in enumerate(keys)], schema)
        except (PySparkException, TypeError, ValueError) as wrong:
            raise SavedStateError(f"the keys of {self.uid!r} are ({self.schema.keys}): {wrong}") from None

    def _refuse_windows(self, what: str) -> None:
        if self.has_windows:
            raise SavedStateError(f"{self.uid!r} has state by window, not {what}: windows() returns it")

    def _keys(self) -> list[Column]:
        if self.has_windows and not self.schema.merged_by:
            # The keys are computed from the stored rows.
            return []
        return [_column(stored).alias(name) for name, stored in stored_keys(self.schema).items()]

    def _stored_keys(self) -> Iterable[str]:
        return (name for name in self.key_names if self.schema.merged_by or name in self.state_names)

    def _values(self) -> list[Column]:
        return [_column(stored).alias(name) for name, stored in stored_values(self.schema).items()]

    def _newest(self) -> DataFrame:
        return self._live(self._all_rows())

    def _live(self, rows: DataFrame) -> DataFrame:
        """Return the newest row of each key that has state. `_REQUESTED` counts as a key column."""
        if self._has_one_row_of_each:
            return rows.where(~F.col(IS_DELETED))
        keys = [name for name in rows.columns if name.startswith(KEY_PREFIX) or name == _REQUESTED]
        others = [_column(name) for name in rows.columns if name not in keys]
        newest = rows.groupBy(*keys).agg(F.max_by(F.struct(*others), VERSION).alias(_NEWEST))
        return newest.select(*keys, f"{_NEWEST}.*").where(~F.col(IS_DELETED))

    def _all_rows(self) -> DataFrame:
        paths = [path for files in self._files for path in files.paths]
        return read_parquet(self._session, paths) if paths else self._no_rows()

    def _no_rows(self) -> DataFrame:
        stored = (stored_keys(self.schema), stored_values(self.schema))
        types = (columns_of(self.schema.keys), columns_of(self.schema.columns))
        columns = [(column, types[place][name]) for place in (0, 1) for name, column in stored[place].items()]
        timers = [(column, "array<bigint>") for column in (EVENT_TIMERS, PROCESSING_TIMERS)]
        internal = [(VERSION, "bigint"), (POSITION, "bigint"), (IS_DELETED, "boolean")]
        ddl = columns_ddl([(TIME, "bigint"), *columns, *timers, *internal])
        return self._session.createDataFrame([], ddl)

    def _open_panes(self, windows: EventTimeWindows) -> list[tuple[DataFrame, int | None]]:
        """Return the rows that windows still need, each with the start of the last window that has ended."""
        if not self._files:
            return [(self._no_rows(), None)]
        panes = []
        for files in self._files:
            rows, closed = read_parquet(self._session, files.paths), files.closed_to_ms
            if closed is not None:
                rows = rows.where(F.col(TIME) >= F.lit(windows.next_start(closed) * MICROS_PER_MS))
            panes.append((rows, closed))
        return panes

    def _merged(self, rows: DataFrame) -> DataFrame:
        """Merge partial aggregates so that each key occurs once per pane or window."""
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
    """Collect rows with values as functions see them: structs as dicts, times in UTC and not in local time."""
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
