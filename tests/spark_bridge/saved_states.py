"""Writes keyed state files in the format of snapshots, for tests that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq
from pyspark.sql import SparkSession

from flykka.actors.machines.state.keyed_state import keyed_state
from flykka.actors.machines.state.segments import ResultBounds, Written
from flykka.messages.state.handles import KeyGroupRange, OperatorSubtaskState, SharedStateHandle, StateSchema
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.rows.partitioning import KeyGroups
from flykka.spark_bridge.saved_state.reading import SavedState
from flykka.spark_bridge.worker.segment_file import IS_DELETED, POSITION, VERSION

OPERATOR = OperatorId("operator")
FUNCTION = StateSchema(keys="user string", columns="orders bigint, `last one` string")
WINDOWS = StateSchema(
    keys="user string",
    columns="`sum(amount)` bigint, rows bigint",
    windows="size=120000ms, slide=60000ms, offset=0ms",
    merged_by=("sum", "sum"),
)
Row = Mapping[str, Any]


def write_state_rows(folder: Path, rows: Sequence[Row], types: Mapping[str, pa.DataType]) -> SharedStateHandle:
    folder.mkdir(parents=True)
    columns = {name: pa.array([row.get(name) for row in rows], kind) for name, kind in types.items()}
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    return SharedStateHandle(state_id=folder.name, path=f"file:{folder}", rows=len(rows), size_bytes=1)


def of_function(spark: SparkSession, folder: Path, *versions: Mapping[str, Row | None]) -> SavedState:
    """Write state of users, one folder per version. None stands for a user whose state was deleted."""
    groups = KeyGroups(keys=("user",), max_parallelism=128)
    users = sorted({user for version in versions for user in version})
    keys = spark.createDataFrame([(user,) for user in users], "user string").select("user", groups.position())
    positions = dict(tuple(row) for row in keys.collect())
    timers = pa.list_(pa.int64())
    types = {
        POSITION: pa.int64(),
        "__key_0": pa.string(),
        "orders": pa.int64(),
        "last one": pa.string(),
        "__event_timers": timers,
        "__processing_timers": timers,
        VERSION: pa.int64(),
        IS_DELETED: pa.bool_(),
    }
    handles = [
        write_state_rows(
            folder / f"state-{number}",
            [
                {**(row or {}), POSITION: positions[user], "__key_0": user, VERSION: number, IS_DELETED: row is None}
                for user, row in version.items()
            ],
            types,
        )
        for number, version in enumerate(versions)
    ]
    return saved(spark, FUNCTION, *((handle, None) for handle in handles), has_timers=True)


def of_windows(
    spark: SparkSession, folder: Path, *panes: tuple[int | None, Sequence[tuple[str, int, int]]]
) -> SavedState:
    """Write window state: folders of panes (user, start in minutes, sum), and the start of the last fired window."""
    types = {"__window": pa.int64(), "__key_0": pa.string(), "__part_0": pa.int64(), "__rows": pa.int64()}
    handles = [
        (
            write_state_rows(
                folder / f"panes-{number}",
                [
                    {"__window": start * 60_000_000, "__key_0": user, "__part_0": total, "__rows": 1}
                    for user, start, total in rows
                ],
                types,
            ),
            None if closed_to is None else closed_to * 60_000,
        )
        for number, (closed_to, rows) in enumerate(panes)
    ]
    return saved(spark, WINDOWS, *handles)


def saved(
    spark: SparkSession,
    schema: StateSchema,
    *handles: tuple[SharedStateHandle, int | None],
    has_timers: bool = False,
) -> SavedState:
    """Return the state of one subtask; each folder has the bound of its results."""
    return SavedState(spark, "uid", schema, [subtask_state(*handles)], max_parallelism=128, has_timers=has_timers)


def subtask_state(*handles: tuple[SharedStateHandle, int | None]) -> OperatorSubtaskState:
    places = {
        Written(handles=(handle,), checkpoint_id=1): ResultBounds(closed_to_ms=closed_to)
        for handle, closed_to in handles
    }
    return keyed_state(OPERATOR, KeyGroupRange(start=0, end=127), places)
