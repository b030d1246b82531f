"""Tables with one row per key, or of whole rows, at each checkpoint, while keys move between rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Condition

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from flykka import FileSource, JobClient, RestartStrategies, StreamExecutionEnvironment
from flykka.errors import JobExecutionError
from flykka.messages.control.job import MetricsReported
from flykka.messages.wire.message import Message
from tests.integration.arrivals import END
from tests.integration.delta_versions import versions

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

PATIENCE_SECONDS = 120

Item = tuple[str, int]
"""The name and the number of an item."""

NAMES = ("id", "name", "n", "row_kind")
SCHEMA = "id bigint, name string, n bigint, row_kind string"
STEPS: list[list[list[tuple[int, str, int, str]]]] = [
    [
        [(1, "a", 10, "+I"), (2, "b", 20, "+I")],
        [(3, "a", 5, "+I"), (4, "c", 1, "+I")],
    ],
    [
        # Between these two files both have the name b.
        [(1, "b", 10, "+U")],
        [(2, "a", 20, "+U"), (5, "c", 1, "+I")],
    ],
    [
        [(3, "a", 5, "-D"), (4, "d", 7, "+U")],
        [(2, "b", 21, "+U"), (1, "c", 11, "+U")],
    ],
    [
        [(2, "c", 21, "+U"), (1, "b", 11, "+U")],
        [(4, "d", 7, "-D")],
    ],
]
"""The changes between two checkpoints, file by file."""

TABLES = {
    "latest": (", sequence_by 'n'", "SELECT name, id, n FROM item ON CONFLICT DO DEDUPLICATE"),
    "first": ("", "SELECT name, id, n FROM item ON CONFLICT DO NOTHING"),
    "only": ("", "SELECT name, id, n FROM item WHERE id <= 2"),
    "keyless": ("", "SELECT name, 0 AS id, n % 10 AS n FROM item"),
}


def expected_tables() -> list[dict[str, list[tuple[str, int, int]]]]:
    items: dict[int, Item] = {}
    first: dict[str, tuple[str, int, int]] = {}
    expected = []
    for step in STEPS:
        for key, name, n, kind in (change for file in step for change in file):
            items.pop(key, None)
            if kind != "-D":
                items[key] = (name, n)
        rows = sorted((name, key, n) for key, (name, n) in items.items())
        names = {name for name, *_ in rows}
        first = {
            name: first[name] if first.get(name) in rows else min(row for row in rows if row[0] == name)
            for name in names
        }
        latest = {name: max((row for row in rows if row[0] == name), key=lambda row: (row[2], row)) for name in names}
        only = [row for row in rows if row[1] <= 2]
        assert len({name for name, *_ in only}) == len(only), "no two have one name at a checkpoint"
        keyless = [(name, 0, n % 10) for name, _, n in rows]
        tables = {"latest": latest.values(), "first": first.values(), "only": only, "keyless": keyless}
        expected.append({table: sorted(content) for table, content in tables.items()})
    return expected


def deliver_step(number: int, folder: Path) -> int:
    """Add the files of a step to a folder in order, each atomically; return the number of their rows."""
    for place, changes in enumerate(STEPS[number]):
        name = f"{number}-{place}.parquet"
        pd.DataFrame(changes, columns=list(NAMES)).to_parquet(folder / f".{name}")
        (folder / f".{name}").rename(folder / name)
    return sum(map(len, STEPS[number]))


class RowsRead:
    def __init__(self, client: JobClient) -> None:
        self._changed = Condition()
        self._rows = self._expected = 0
        client.add_listener(self._hear)

    def wait_for_more(self, rows: int) -> None:
        self._expected += rows
        with self._changed:
            assert self._changed.wait_for(lambda: self._rows >= self._expected, timeout=PATIENCE_SECONDS)

    def _hear(self, message: Message) -> None:
        if isinstance(message, MetricsReported) and message.task_name.startswith("Source"):
            with self._changed:
                self._rows = message.metrics.rows_in
                self._changed.notify_all()


def start_tables(env: StreamExecutionEnvironment, folder: Path, parallelism: int) -> JobClient:
    env.enable_checkpointing("1h", initial_delay="1h").set_checkpoint_dir(str(folder / "checkpoints")).set_parallelism(
        parallelism
    )
    env.set_default_savepoint_directory(str(folder / "savepoints"))
    source = FileSource.parquet(str(folder / "items"), schema=SCHEMA).files_per_batch(1)
    items = env.from_source(source.monitor_continuously("1h", until=END), name="items", uid="items")
    items.set_parallelism(1)  # Two readers would read the files in any order.
    env.create_temporary_view("item", items, primary_key="id")
    together = env.create_statement_set()
    for table, (options, query) in TABLES.items():
        key = "" if table == "keyless" else ", PRIMARY KEY (name) NOT ENFORCED"
        env.execute_sql(
            f"CREATE TABLE {table} (name STRING, id BIGINT, n BIGINT{key}) USING delta PARTITIONED BY (name)"
            f" OPTIONS (path '{folder / table}'{options})"
        )
        together.add_insert_sql(f"INSERT INTO {table} {query}")
    return together.execute()


@pytest.mark.parametrize("parallelism", [(1, 2), pytest.param((2, 1), marks=pytest.mark.long)])
def test_tables_follow_their_rules_at_each_checkpoint_and_after_a_savepoint(
    environment: Callable[..., StreamExecutionEnvironment], tmp_path: Path, parallelism: tuple[int, int]
) -> None:
    (tmp_path / "items").mkdir()
    expected, at_checkpoint = expected_tables(), dict[int, int]()

    savepoint: str | None = None
    for part, steps in enumerate((range(2), range(2, len(STEPS)))):
        env = environment()
        if savepoint is not None:
            env.from_savepoint(savepoint)
        client = start_tables(env, tmp_path, parallelism[part])
        rows = RowsRead(client)
        for step in steps:
            rows.wait_for_more(deliver_step(step, tmp_path / "items"))
            at_checkpoint[int(Path(client.trigger_checkpoint()).name.removeprefix("chk-"))] = step
        savepoint = client.stop_with_savepoint()

    for table in TABLES:
        content: list[tuple[object, ...]] = []
        seen = set()
        for checkpoint_id, rows_of_version in versions(tmp_path / table, ("name", "id", "n")):
            if checkpoint_id in at_checkpoint:
                content = list(expected[at_checkpoint[checkpoint_id]][table])
                seen.add(at_checkpoint[checkpoint_id])
            assert rows_of_version == content, f"{table} at checkpoint {checkpoint_id}"
        assert seen == set(range(len(STEPS))), table


@pytest.mark.parametrize("mode", ["STREAMING", pytest.param("BATCH", marks=pytest.mark.long)])
def test_two_rows_of_a_key_end_the_job_and_publish_nothing(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], tmp_path: Path, mode: str
) -> None:
    env = environment().set_runtime_mode(mode).set_checkpoint_dir(str(tmp_path / "checkpoints")).set_parallelism(2)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    items = spark.createDataFrame([(1, "a"), (2, "b"), (3, "b"), (4, "c")], "id bigint, name string")
    env.create_temporary_view("item", env.from_dataframe(items), primary_key="id")
    env.execute_sql(
        "CREATE TABLE names (name STRING, id BIGINT, PRIMARY KEY (name) NOT ENFORCED)"
        f" USING delta OPTIONS (path '{tmp_path / 'names'}')"
    )

    client = env.execute_sql("INSERT INTO names SELECT name, id FROM item")
    assert isinstance(client, JobClient)
    with pytest.raises(JobExecutionError) as failed:
        client.wait(timeout=300)

    assert (
        "two rows for the table names have the key (name = 'b'): (name = 'b', id = 2) and (name = 'b', id = 3). With ON"
        " CONFLICT DO DEDUPLICATE" in str(failed.value)
    )
    assert not (tmp_path / "names" / "_delta_log").exists()
