"""Tests that a value that Spark cannot represent fails the job, becomes null or goes to a side output. All other values
are read unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from flykka import ForeachBatchSink, OutputTag, RestartStrategies, StreamExecutionEnvironment
from flykka.errors import JobExecutionError, ProgramError, StreamTypeError
from flykka.spark_bridge.connectors.postgres.cdc_source import PostgresCdcSource
from flykka.spark_bridge.connectors.postgres.read_types import OnUnreadable
from flykka.spark_bridge.connectors.postgres.table_reading import postgres_table
from flykka.spark_bridge.program.prototype import PrototypeError
from tests.spark_bridge.connectors.postgres.reading import changes_since, discover_all_splits, read_by, read_splits
from tests.spark_bridge.connectors.postgres.server import Database
from tests.spark_bridge.connectors.postgres.writing import expect_refusal

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PATIENCE_S = 120.0
INF = float("inf")
# The type, the value in SQL, and the value that is read.
VALUES: dict[str, tuple[str, str, object]] = {
    "numeric of a precision": ("numeric(38,2)", "'-999999999999999999999999999999999999.99'", None),
    "numeric of 18 digits": ("numeric", "0.123456789012345678", None),
    "int2": ("smallint", "-32768", -32768),
    "oid": ("oid", "4294967295", 4294967295),
    "float4": ("real", "'Infinity'", INF),
    "float8": ("double precision", "'-Infinity'", -INF),
    "a domain": ("percentage", "99.5", None),
    "year 1": ("date", "'0001-01-01'", None),
    "year 9999": ("timestamp", "'9999-12-31 23:59:59.999999'", None),
    "an enum": ("mood", "'so ''so'''", "so 'so'"),
    "bytea": ("bytea", "'\\x00ff5c27'", b"\x00\xff\\'"),
    "varchar": ("varchar(9)", "E'tab\\t\\\\N'", "tab\t\\N"),
    "char": ("char(4)", "'ab'", "ab  "),
    "an empty text": ("text", "''", ""),
    "uuid": ("uuid", "'00000000-0000-0000-0000-00000000002A'", "00000000-0000-0000-0000-00000000002a"),
    "json": ("json", "'{\"a\":  1}'", '{"a":  1}'),
    "time": ("time", "'24:00'", "24:00:00"),
    "timetz": ("timetz", "'12:00:00.5+02'", "12:00:00.5+02"),
    "inet": ("inet", "'10.0.0.1/8'", "10.0.0.1/8"),
    "bit": ("bit(3)", "B'101'", "101"),
    "point": ("point", "'(1,2)'", "(1,2)"),
    "a composite": ("pair", "(1,'a b')::pair", '(1,"a b")'),
    "a range": ("int4range", "'[1,5)'", "[1,5)"),
    "an interval": ("interval", "'1 year 2 days'", "P1Y2D"),
    "int8[]": ("bigint[]", "ARRAY[1, NULL, -9223372036854775808]", [1, None, -(2**63)]),
    "bool[]": ("boolean[]", "ARRAY[true, NULL, false]", [True, None, False]),
    "float8[]": ("double precision[]", "ARRAY['-Infinity', 0.5]::double precision[]", [-INF, 0.5]),
    "text[]": ("text[]", """ARRAY['a', NULL, 'NULL', 'b,c', '{}', 'q"uote', 'back\\slash', '', ' sp ', E'l\\nf']""", [
        *("a", None, "NULL", "b,c", "{}", 'q"uote', "back\\slash", "", " sp ", "l\nf")]),
    "box[]": ("box[]", "'{(1,1),(0,0);(2,2),(1,1)}'", ["(1,1),(0,0)", "(2,2),(1,1)"]),
    "json[]": ("json[]", """array['{"a":  1}', '"s"']::json[]""", ['{"a":  1}', '"s"']),
    "jsonb[]": ("jsonb[]", """array['{"a": [1]}', '"s"']::jsonb[]""", ['{"a": [1]}', '"s"']),
    "composite[]": ("pair[]", "array[(1,'a b')::pair, null]", ['(1,"a b")', None]),
    "bytea[]": ("bytea[]", "ARRAY['\\x00ff'::bytea]", ["\\x00ff"]),
    "int2vector": ("int2vector", "'1 2'", "1 2"),
    "bounds of an array": ("int[]", "'[0:1]={7,8}'", [7, 8]),
}  # fmt: skip


@pytest.fixture
def odd(database: Database) -> PostgresCdcSource:
    database.run(
        "CREATE TABLE days (id int PRIMARY KEY, day date, name text)",
        "INSERT INTO days VALUES (1, '2024-02-29', 'a'), (2, 'infinity', 'b')",
    )
    return source_of(database, "fail")


def source_of(database: Database, on_unreadable: OnUnreadable, table: str = "days") -> PostgresCdcSource:
    return PostgresCdcSource.of_table(
        database.conninfo, table, slot=f"slot_{database.name}", on_unreadable=on_unreadable
    )


@pytest.fixture
def env(spark: SparkSession, tmp_path: Path) -> Iterator[StreamExecutionEnvironment]:
    created = StreamExecutionEnvironment.get_execution_environment()
    created.set_restart_strategy(RestartStrategies.fixed_delay_restart(5, "1ms"))
    created.enable_checkpointing("200ms").set_checkpoint_dir(str(tmp_path / "checkpoints"))
    yield created
    created.close()


def collect_rows(env: StreamExecutionEnvironment, stream: Any, uid: str) -> dict[int, list[tuple[object, ...]]]:
    """Return the rows of a stream by checkpoint after the stream's job has run."""
    batches: dict[int, list[tuple[object, ...]]] = {}
    stream.sink_to(ForeachBatchSink(lambda rows, number: batches.update({number: [*map(tuple, rows.collect())]}))).uid(
        uid
    )
    return batches


def all_of(batches: dict[int, list[tuple[object, ...]]]) -> list[tuple[object, ...]]:
    return [row for number in sorted(batches) for row in batches[number]]


def test_values_are_equal_in_the_snapshot_and_as_changes(spark: SparkSession, database: Database) -> None:
    columns = ", ".join(f"c{place} {kind}" for place, (kind, _, _) in enumerate(VALUES.values()))
    values = ", ".join(value for _, value, _ in VALUES.values())
    database.run(
        "CREATE TYPE mood AS ENUM ('happy', 'so ''so''')",
        "CREATE TYPE pair AS (x int, y text)",
        "CREATE DOMAIN percentage AS numeric(5,2) CHECK (VALUE <= 100)",
        f"CREATE TABLE things (id int PRIMARY KEY, {columns})",
        f"INSERT INTO things VALUES (1, {values})",
    )
    source = source_of(database, "fail", "things")
    begun = discover_all_splits(source)
    database.run("UPDATE things SET id = id")

    ((_, *at_first, _),) = read_splits(spark, source, begun)
    ((_, *changed, _),) = changes_since(spark, source, begun.position)
    looked_up = postgres_table(spark, database.conninfo, "things").drop("id").first()

    expected = [want for _, _, want in VALUES.values()]
    assert at_first == changed == list(looked_up or ())
    assert [got for got, want in zip(at_first, expected, strict=True) if want is not None] == [
        want for want in expected if want is not None
    ]
    assert [str(got) for got, want in zip(at_first, expected, strict=True) if want is None] == [
        "-999999999999999999999999999999999999.99",
        "0.123456789012345678",
        "99.50",
        "0001-01-01",
        "9999-12-31 23:59:59.999999",
    ]


def test_the_job_fails_at_once_and_names_the_unreadable_value(
    env: StreamExecutionEnvironment, database: Database, odd: PostgresCdcSource
) -> None:
    collect_rows(env, env.from_source(odd.bounded(), uid="days"), "out")
    client = env.execute_async("days")

    with pytest.raises(
        JobExecutionError, match=r"'day' of public\.days has the value 'infinity' in the row id = 2, .*on_"
    ):
        client.wait(timeout=PATIENCE_S)
    lag = r"While the job is down the replication slot '\w+' keeps \d+ \w+ of the server's log, and more"
    assert re.search(lag, str(client.why()))
    assert client.details.number_of_restarts == 0


# test_sql.py covers the null in a job; the next test covers unreadable changes.
@pytest.mark.long
def test_an_unreadable_value_is_null_in_the_snapshot_and_as_a_change(
    spark: SparkSession, database: Database, odd: PostgresCdcSource
) -> None:
    source = source_of(database, "null")
    begun = discover_all_splits(source)
    database.run("UPDATE days SET day = '0044-03-15 BC' WHERE id = 1")

    assert [row[1:] for row in read_splits(spark, source, begun) if row[0] == 2] == [(None, "b", "+I")]
    assert changes_since(spark, source, begun.position) == [(1, None, "a", "+U")]


def test_unreadable_rows_go_to_a_side_output_from_snapshot_and_changes(
    env: StreamExecutionEnvironment, database: Database, odd: PostgresCdcSource
) -> None:
    source = source_of(database, "side-output").with_metadata("lsn")
    slot = discover_all_splits(source.start_from("latest-offset"))
    database.run("UPDATE days SET day = '-infinity' WHERE id = 1", "INSERT INTO days VALUES (3, '2024-01-01', 'c')")
    days = env.from_source(source.start_from("committed-offset").bounded(), uid="days")
    preview = days.drop("lsn").preview().values.tolist()
    main = collect_rows(env, days.select("id", "name", "row_kind"), "main")
    aside = days.get_side_output(OutputTag("unreadable"))
    side = collect_rows(env, aside.drop("lsn"), "side")

    env.execute("days")

    assert slot.position
    assert aside.columns == ["row_kind", "lsn", "unreadable", "texts"]
    assert preview == [[3, date(2024, 1, 1), "c", "+I"]]
    assert all_of(main) == [(3, "c", "+I")]
    assert all_of(side) == [("+U", ["day"], {"id": "1", "day": "-infinity", "name": "a"})]


def test_an_unread_side_output_of_unreadable_rows_is_refused(
    env: StreamExecutionEnvironment, database: Database, odd: PostgresCdcSource
) -> None:
    collect_rows(env, env.from_source(source_of(database, "side-output").bounded(), uid="days"), "out")

    with pytest.raises(ProgramError, match=r"a side output that is not read: .*OutputTag\('unreadable'\)"):
        env.execute("days")


def test_a_lookup_table_reports_an_unreadable_value_or_has_null(
    spark: SparkSession, database: Database, odd: PostgresCdcSource
) -> None:
    with expect_refusal(r"'day' of public\.days has the value 'infinity'"):
        postgres_table(spark, database.conninfo, "days").collect()
    nulls = postgres_table(spark, database.conninfo, "days", on_unreadable="null")

    assert [row.day for row in nulls.where("id = 2").collect()] == [None]
    with pytest.raises(ValueError, match='on_unreadable of a postgres_table is "fail" or "null", not \'side-output\''):
        postgres_table(spark, database.conninfo, "days", on_unreadable="side-output")  # type: ignore[arg-type]


def test_an_unknown_rule_for_unreadable_values_is_refused(database: Database) -> None:
    with pytest.raises(ValueError, match='on_unreadable is "fail" or "null" or "side-output", not \'skip\''):
        source_of(database, "skip")  # type: ignore[arg-type]


def test_names_that_spark_considers_equal_are_refused_at_the_source(
    env: StreamExecutionEnvironment, database: Database
) -> None:
    database.run('CREATE TABLE names (id int PRIMARY KEY, "Name" text, name text, "LSN" int)')
    source = source_of(database, "fail", "names")

    with pytest.raises(
        StreamTypeError, match=r"names .* has the columns 'Name' and 'name', which Spark considers equal"
    ):
        env.from_source(source)
    with pytest.raises(PrototypeError, match=r"has the columns 'Name' and 'name'"):
        postgres_table(env.spark, database.conninfo, "names")
    database.run('ALTER TABLE names DROP COLUMN "Name"')
    with pytest.raises(StreamTypeError, match=r"has the columns 'LSN' and 'lsn'"):
        env.from_source(source.with_metadata("lsn"))


def test_an_error_names_a_type_that_changed_before_the_discovery(
    spark: SparkSession, database: Database, odd: PostgresCdcSource
) -> None:
    bound = odd.bound(spark, None)
    begun = discover_all_splits(odd.start_from("latest-offset"))
    database.run("ALTER TABLE days ALTER COLUMN id TYPE bigint", "INSERT INTO days VALUES (3000000000, NULL, NULL)")
    discovered = discover_all_splits(odd.start_from("latest-offset"), begun.position)

    with expect_refusal(r"'id' is bigint, but was integer\. Run the program again"):
        read_by(spark, bound, discovered)


def test_a_rerun_job_reads_changes_before_a_widening_but_not_retyped_ones(
    spark: SparkSession, database: Database, odd: PostgresCdcSource
) -> None:
    begun = discover_all_splits(odd.start_from("latest-offset"))
    database.run("INSERT INTO days VALUES (7, NULL, '8')", "ALTER TABLE days ALTER COLUMN id TYPE bigint")
    widened = discover_all_splits(odd.start_from("latest-offset"), begun.position)
    rows = read_splits(spark, odd, widened)
    database.run("ALTER TABLE days ALTER COLUMN name TYPE date USING NULL")

    assert rows == [(7, None, "8", "+I")]
    with expect_refusal(r"'name' of public\.days had another type than date when a row was changed at"):
        read_splits(spark, odd, widened)
