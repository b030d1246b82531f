"""Writes the keyed state of one operator from a DataFrame (Flink's StateBootstrapTransformation).

The columns are those that `SavedState` reads: the keys and the states by their names. A state without a column is null
for every key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from flykka.actors.machines.state.key_groups import key_groups_of
from flykka.actors.machines.state.schema_evolution import columns_of, is_same_or_wider, quoted
from flykka.messages.state.handles import ExclusiveStateHandle, KeyGroupRange
from flykka.spark_bridge.errors import SavedStateError
from flykka.spark_bridge.functions.current_key import TimeDomain
from flykka.spark_bridge.functions.times import MICROS_PER_MS
from flykka.spark_bridge.operators.keyed_batch import STATE
from flykka.spark_bridge.program.aggregates import TIME
from flykka.spark_bridge.program.stored_columns import stored_keys, stored_values
from flykka.spark_bridge.rows.exact_names import exactly_named
from flykka.spark_bridge.rows.files import write_checkpoint_files
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.rows.partitioning import KeyGroups
from flykka.spark_bridge.saved_state.reading import PANE_START, TIMER_COLUMNS, WINDOW_END, WINDOW_START
from flykka.spark_bridge.state.file_digests import seal
from flykka.spark_bridge.state.segment_files import saved_file, state_columns_of
from flykka.spark_bridge.worker.listed_state import EVENT_TIMERS, PROCESSING_TIMERS
from flykka.spark_bridge.worker.segment_file import (
    IS_DELETED,
    NEXT_EVENT_TIMER,
    NEXT_PROCESSING_TIMER,
    POSITION,
    VERSION,
)
from flykka.spark_bridge.worker.segments import SAVED, SaveRows
from flykka.spark_bridge.worker.time_columns import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.messages.state.handles import StateSchema
    from flykka.spark_bridge.operators.spark_keyed_batches import KeyedCode
    from flykka.spark_bridge.operators.spark_windows import WindowCode

_SUBTASK = "__subtask"
_TIMERS = {EVENT_TIMERS: TimeDomain.EVENT_TIME, PROCESSING_TIMERS: TimeDomain.PROCESSING_TIME}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenState:
    key_groups: KeyGroupRange
    handle: ExclusiveStateHandle | None


def write_keyed_rows(
    uid: str,
    code: KeyedCode,
    schema: StateSchema,
    rows: DataFrame,
    timers: DataFrame | None,
    folder: str,
    *,
    max_parallelism: int,
    parallelism: int,
) -> list[WrittenState]:
    """Write one row per key, with its timers. Return the state of each of the `parallelism` subtasks.

    Raises:
        SavedStateError: columns are missing, unknown or of the wrong type; a key occurs twice; or a timer has no time
            or an unknown domain. The message names the operator.
    """
    keyed = _with_names(uid, rows, schema, code.state_fields)
    keys = [field.name for field in code.key_fields]
    _refuse_two_of_one_key(uid, keyed, keys, schema)
    if timers is not None:
        if not any(field.name == EVENT_TIMERS for field in code.state_fields):
            raise SavedStateError(f"{uid!r} keeps no timers")
        keyed = _with_timers(keyed, _timers_by_key(uid, timers, schema), keys)
    has_state = [F.col(quoted(field.name)).isNotNull() for field in code.state_fields if field.name in keyed.columns]
    if not has_state:
        raise SavedStateError(
            f"the rows for {uid!r} have keys but no state columns; its states are: {', '.join(stored_values(schema))}"
        )
    groups = KeyGroups(keys=tuple(keys), max_parallelism=max_parallelism)
    columns = state_columns_of(code.key_fields, code.state_fields)
    internal = {POSITION: groups.position(), VERSION: F.lit(1).cast("bigint"), IS_DELETED: F.lit(False)}
    missing = {field.name: F.lit(None).cast(field.dataType) for field in columns if field.name not in keyed.columns}
    placed = (
        keyed.where(reduce(lambda one, other: one | other, has_state))
        .withColumns({**missing, **internal, _SUBTASK: groups.owner(parallelism)})
        .select(_SUBTASK, *map(quoted, columns.names))
        .repartitionById(parallelism, F.col(_SUBTASK))
        .sortWithinPartitions(_SUBTASK, POSITION)
    )
    work = SaveRows(
        address=folder,
        schema=arrow_schema(columns),
        subtask_column=_SUBTASK,
        within=folder.rsplit("/", 1)[0],
    )
    files = {row["place"]: saved_file(row) for row in exactly_named(placed).mapInArrow(work, SAVED).collect()}
    return [
        WrittenState(
            key_groups=key_groups_of(subtask, max_parallelism, parallelism),
            handle=ExclusiveStateHandle(
                path=f"{folder}/{subtask}",
                size_bytes=files[subtask].size_bytes,
                state_name=STATE,
                files=(files[subtask],),
            )
            if subtask in files
            else None,
        )
        for subtask in range(parallelism)
    ]


def write_panes(uid: str, code: WindowCode, schema: StateSchema, rows: DataFrame, folder: str) -> ExclusiveStateHandle:
    """Write rows by pane as one durable folder.

    Raises:
        SavedStateError: columns are missing, unknown or of the wrong type; or a pane starts when no window
            starts or ends.
    """
    windows, start = code.windows, PANE_START
    if PANE_START not in rows.columns and WINDOW_START in rows.columns:
        if windows.overlap:
            raise SavedStateError(
                f"the windows of {uid!r} overlap and share the state of panes: pass rows as panes() returns them, with"
                f" the column {PANE_START!r}"
            )
        start = WINDOW_START
        rows = rows.drop(WINDOW_END)
    if start not in rows.columns:
        raise SavedStateError(f"the rows for {uid!r} need the column {PANE_START!r}, when each pane begins")
    micros = F.unix_micros(F.col(start).cast("timestamp"))
    since = F.pmod(micros - F.lit(windows.offset_ms * MICROS_PER_MS), F.lit(windows.slide_ms * MICROS_PER_MS))
    begins = [0] + ([windows.size_ms % windows.slide_ms * MICROS_PER_MS] if windows.overlap else [])
    wrong = rows.where(micros.isNull() | ~since.isin(begins)).select(start).first()
    if wrong is not None:
        raise SavedStateError(f"no window of {uid!r}, {schema.windows}, has a pane that begins at {wrong[0]}")
    panes = _with_names(uid, rows.withColumn(TIME, micros).drop(start), schema, (), also=(TIME,))
    filesystem = FileSystem(rows.sparkSession)
    path = filesystem.qualified(folder)
    written = write_checkpoint_files(filesystem, panes.coalesce(1), path)
    within = path.rsplit("/", 1)[0]
    files = seal(rows.sparkSession, [file.path for file in written], path, within=within)
    return ExclusiveStateHandle(path=folder, size_bytes=sum(file.size_bytes for file in files), files=files)


def _with_names(
    uid: str,
    rows: DataFrame,
    schema: StateSchema,
    fields: Sequence[StructField],
    also: tuple[str, ...] = (),
) -> DataFrame:
    has_keys = bool(schema.merged_by) or not schema.windows
    keys = stored_keys(schema) if has_keys else {}
    values = stored_values(schema)
    types = {**columns_of(schema.columns), **(columns_of(schema.keys) if has_keys else {})}
    expected = [*keys, *values]
    if unknown := [name for name in rows.columns if name not in expected and name not in also]:
        raise SavedStateError(f"{uid!r} has no state {unknown[0]!r}; it has: {', '.join(expected)}")
    if missing := [name for name in keys if name not in rows.columns]:
        raise SavedStateError(f"the rows for {uid!r} miss the key {missing[0]!r}: they have {', '.join(rows.columns)}")
    _check_types(uid, rows.drop(*also), types)
    exact = {field.name: field.dataType for field in fields}
    return rows.select(
        *also,
        *(F.col(quoted(name)).cast(types[name]).alias(column) for name, column in keys.items()),
        *(
            F.col(quoted(name)).cast(exact.get(column, types[name])).alias(column)
            for name, column in values.items()
            if name in rows.columns
        ),
    )


def _check_types(uid: str, rows: DataFrame, types: dict[str, str]) -> None:
    for column in rows.schema:
        actual, required = column.dataType.simpleString(), types[column.name]
        if not is_same_or_wider(actual, required):
            raise SavedStateError(f"{column.name!r} of {uid!r} is of the type {required}, and the rows have {actual}")


def _refuse_two_of_one_key(uid: str, rows: DataFrame, keys: list[str], schema: StateSchema) -> None:
    twice = rows.groupBy(*keys).count().where("count > 1").first()
    if twice is not None:
        key = ", ".join(f"{name}={twice[place]!r}" for place, name in enumerate(stored_keys(schema)))
        raise SavedStateError(
            f"the rows for {uid!r} have the key {key} {twice['count']} times: only one row per key is allowed"
        )


def _timers_by_key(uid: str, timers: DataFrame, schema: StateSchema) -> DataFrame:
    keys, types = stored_keys(schema), columns_of(schema.keys)
    expected = [*keys, *(name for name, _ in TIMER_COLUMNS)]
    if set(timers.columns) != set(expected):
        raise SavedStateError(
            f"the timers of {uid!r} have the columns {', '.join(timers.columns)}, not {', '.join(expected)}"
        )
    _check_types(uid, timers.select(*map(quoted, keys)), types)
    domains = [domain.value for domain in _TIMERS.values()]
    wrong = timers.where(F.col("time").isNull() | F.col("domain").isNull() | ~F.col("domain").isin(domains)).first()
    if wrong is not None:
        raise SavedStateError(
            f"a timer of {uid!r} is at {wrong['time']} in the domain {wrong['domain']!r}: a time is needed, and"
            f" {' or '.join(map(repr, domains))}"
        )
    in_ms = F.unix_millis(F.col("time").cast("timestamp"))
    return timers.groupBy(*(F.col(quoted(name)).cast(types[name]).alias(column) for name, column in keys.items())).agg(
        *(
            F.sort_array(F.collect_set(F.when(F.col("domain") == domain.value, in_ms))).alias(column)
            for column, domain in _TIMERS.items()
        )
    )


def _with_timers(rows: DataFrame, timers: DataFrame, keys: list[str]) -> DataFrame:
    alike = reduce(lambda one, other: one & other, (rows[key].eqNullSafe(timers[key]) for key in keys))
    values = [name for name in rows.columns if name not in keys]
    of_timers: Iterable[Column] = (F.when(F.size(timers[name]) > 0, timers[name]).alias(name) for name in _TIMERS)
    joined = rows.join(timers, alike, "full_outer").select(
        *(F.coalesce(rows[key], timers[key]).alias(key) for key in keys),
        *(rows[quoted(name)] for name in values),
        *of_timers,
    )
    first = {NEXT_EVENT_TIMER: EVENT_TIMERS, NEXT_PROCESSING_TIMER: PROCESSING_TIMERS}
    return joined.withColumns({column: F.array_min(timers) for column, timers in first.items()})
