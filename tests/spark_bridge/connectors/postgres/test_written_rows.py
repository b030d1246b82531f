"""Tests that rows are written unchanged, or refused before the job starts, with the column's name and a remedy."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from flykka.connectors import FileSystem, SinkError
from flykka.spark_bridge.connectors.postgres.sink import PostgresSink
from flykka.spark_bridge.program.prototype import PrototypeError
from tests.spark_bridge.connectors.postgres.server import PASSWORD, Database
from tests.spark_bridge.connectors.postgres.writing import Writing

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_values_of_all_types_are_written_unchanged(
    spark: SparkSession, database: Database, writing: Callable[[PostgresSink], Writing]
) -> None:
    database.run(
        "CREATE TYPE mood AS ENUM ('glad')",
        "CREATE TABLE things (i smallint, l bigint, n numeric(12,2), f double precision, b boolean, t text, m mood,"
        " u uuid, j jsonb, y bytea, d date, z timestamptz, w timestamp, a text[], k int[], x jsonb)",
    )
    uuid = "00000000-0000-0000-0000-00000000002a"
    rows = spark.sql(
        "SELECT CAST(1 AS TINYINT) AS i, 5000000000 AS l, CAST(12.50 AS DECIMAL(12,2)) AS n, 0.1D AS f, true AS b,"
        """ '"quoted",\n\\\\.' AS t, 'glad' AS m, '"""
        f"{uuid}' AS u, '{{\"a\": 1}}' AS j, X'00FF' AS y, DATE '2024-02-29' AS d,"
        " TIMESTAMP '2024-01-01 12:00:00.123456+02:00' AS z, TIMESTAMP_NTZ '2024-01-01 12:00:00' AS w,"
        """ array('a "b"', NULL, 'c\\\\d', '') AS a, array(1, NULL) AS k, named_struct('p', 1, 'q', array('r')) AS x"""
    )
    nothing = rows.selectExpr(*(f"CAST(NULL AS {kind}) AS {name}" for name, kind in rows.dtypes))
    sink = PostgresSink.append(database.conninfo, "things")
    sink.check_rows(rows)

    writing(sink).publish(rows, nothing)

    written = dict(zip(rows.columns, sorted(database.rows("SELECT * FROM things"), key=str)[0], strict=True))
    assert written["t"] == '"quoted",\n\\.'
    assert (written["l"], str(written["n"]), written["f"], written["b"]) == (5_000_000_000, "12.50", 0.1, True)
    assert (str(written["u"]), written["j"], written["y"]) == (uuid, {"a": 1}, b"\x00\xff")
    assert str(written["d"]) == "2024-02-29"
    assert written["z"].timestamp() == 1_704_103_200.123456
    assert str(written["w"]) == "2024-01-01 12:00:00"
    assert (written["a"], written["k"]) == (['a "b"', None, "c\\d", ""], [1, None])
    assert written["x"] == {"p": 1, "q": ["r"]}
    assert database.rows("SELECT count(*) FROM things WHERE num_nulls(t, n, a, x, y) = 5") == [(1,)]


def test_times_are_the_same_instants_in_any_session_time_zone(
    spark: SparkSession, database: Database, writing: Callable[[PostgresSink], Writing]
) -> None:
    database.run("CREATE TABLE times (z timestamptz, zs timestamptz[])")
    # Before 1883 the zone's offset was not a whole number of minutes; the second 01:30 is in winter time.
    times = "TIMESTAMP '1800-01-01 00:00:00.000001Z', TIMESTAMP '2026-11-01 06:30:00Z'"

    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows = spark.sql(f"SELECT zs[0] AS z, zs FROM (SELECT array({times}) AS zs)")
        writing(PostgresSink.append(database.conninfo, "times")).publish(rows)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    expected = datetime(1800, 1, 1, microsecond=1, tzinfo=UTC), datetime(2026, 11, 1, 6, 30, tzinfo=UTC)
    assert database.rows("SELECT z, zs FROM times") == [(expected[0], [*expected])]


def test_an_empty_text_is_not_null(
    spark: SparkSession, database: Database, writing: Callable[[PostgresSink], Writing]
) -> None:
    database.run("CREATE TABLE names (name text)")

    writing(PostgresSink.append(database.conninfo, "names")).publish(
        spark.createDataFrame([("",), (None,)], "name string")
    )

    assert sorted(database.rows("SELECT name, name IS NULL FROM names"), key=str) == [("", False), (None, True)]


def test_a_table_is_created_for_the_rows(
    spark: SparkSession, database: Database, writing: Callable[[PostgresSink], Writing]
) -> None:
    rows = spark.sql(
        "SELECT 1L AS id, 'a' AS name, map('k', 1) AS more, array(1) AS numbers, CAST(1 AS DECIMAL(9,3)) AS price,"
        " '+I' AS row_kind"
    )
    sink = PostgresSink.upsert(database.conninfo, "made", keys=["id"], row_kind="row_kind").create_table()
    sink.check_rows(rows)
    sink.check_target(FileSystem(spark))

    writing(sink).publish(rows)

    columns = database.rows(
        "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = 'made'::regclass AND attnum > 0"
    )
    expected = {"id": "bigint", "name": "text", "more": "jsonb", "numbers": "integer[]", "price": "numeric(9,3)"}
    assert dict(columns) == expected
    assert database.rows("SELECT id, more FROM made") == [(1, {"k": 1})]


@pytest.mark.parametrize(
    ("table", "query", "why"),
    [
        (
            "id bigint",
            "SELECT 1L AS id, 2 AS colour",
            "public.t has no column 'colour', which the rows have",
        ),
        (
            "id integer",
            "SELECT 1L AS id",
            "'id' of public.t is of type integer and accepts no bigint: cast it",
        ),
        ("id bigint", "SELECT 'a' AS id", "the column 'id' of public.t is of type bigint and accepts no string"),
        ("n numeric(9,2)", "SELECT CAST(1 AS DECIMAL(9,3)) AS n", r"type numeric\(9,2\) and accepts no decimal\(9,3\)"),
        ("a text", "SELECT array(1) AS a", "type text and accepts no array<int>"),
        ("a text[]", "SELECT array(1) AS a", r"type text\[\] and accepts no array<int>"),
        ("id bigint, x text NOT NULL", "SELECT 1L AS id", "the column 'x' of public.t must have a value"),
        (
            "id bigint, twice bigint GENERATED ALWAYS AS (2 * id) STORED",
            "SELECT 1L AS id, 2L AS twice",
            "generates the values of its column 'twice'",
        ),
    ],
)
def test_rows_that_do_not_match_the_table_are_refused(
    spark: SparkSession, database: Database, table: str, query: str, why: str
) -> None:
    database.run(f"CREATE TABLE t ({table})")

    with pytest.raises(PrototypeError, match=why):
        PostgresSink.append(database.conninfo, "t").check_rows(spark.sql(query))


def test_missing_key_and_order_columns_are_reported(spark: SparkSession, database: Database) -> None:
    sink = PostgresSink.upsert(database.conninfo, "names", keys=["id"], sequence_by="at")

    with pytest.raises(PrototypeError, match="needs the column 'at', but the rows have id"):
        sink.check_rows(spark.sql("SELECT 1 AS id"))
    with pytest.raises(ValueError, match="a list of columns"):
        PostgresSink.upsert(database.conninfo, "names", keys="id")
    with pytest.raises(PrototypeError, match="no type for the column 'i', which is of type interval"):
        PostgresSink.append(database.conninfo, "nowhere").create_table().check_rows(
            spark.sql("SELECT INTERVAL '1' DAY AS i")
        )


def test_an_unwritable_target_is_refused(spark: SparkSession, database: Database) -> None:
    database.run(
        "CREATE TABLE names (id bigint, name text)",
        "CREATE INDEX ON names (id)",
        "CREATE UNIQUE INDEX ON names (id) WHERE name IS NOT NULL",
        f"CREATE ROLE reader_{database.name} LOGIN PASSWORD 'reader'",
        f"GRANT SELECT ON names TO reader_{database.name}",
    )
    reader = f"{database.conninfo} user=reader_{database.name} password=reader"
    files = FileSystem(spark)

    with pytest.raises(SinkError, match=r"there is no table nowhere at 127.0.0.1/db_.*: create it"):
        PostgresSink.append(database.conninfo, "nowhere").check_target(files)
    with pytest.raises(SinkError, match=r"public.names has no unique index on the columns id"):
        PostgresSink.upsert(database.conninfo, "names", keys=["id"]).check_target(files)
    with pytest.raises(SinkError, match=r"may not create public.flykka_checkpoints at .*: let another role do it"):
        PostgresSink.append(reader, "names").check_target(files)
    database.run("CREATE TABLE flykka_checkpoints (writer text PRIMARY KEY, checkpoint_id bigint)")
    with pytest.raises(SinkError, match=r"may not write to .public.\..names. at .*: GRANT INSERT ON .* TO reader"):
        PostgresSink.append(reader, "names").check_target(files)
    database.run(f"GRANT INSERT ON names TO reader_{database.name}")
    with pytest.raises(SinkError, match=r"may not write to .*flykka_checkpoints.*: GRANT INSERT, SELECT, UPDATE ON"):
        PostgresSink.append(reader, "names").check_target(files)


def test_a_password_is_never_printed(spark: SparkSession, database: Database) -> None:
    sink = PostgresSink.append(database.conninfo, "names")
    away = PostgresSink.append(f"host=127.0.0.1 port=1 user=u password={PASSWORD}", "names")

    with pytest.raises(SinkError) as unreachable:
        away.check_target(FileSystem(spark))
    with pytest.raises(ValueError, match="cannot be read: write it as") as unreadable:
        PostgresSink.append(f"host=x password=my {PASSWORD}", "names")

    texts = [str(sink), repr(sink), str(unreachable.value), str(unreadable.value), repr(unreadable.value.__cause__)]
    assert not [text for text in texts if PASSWORD in text]
    assert str(sink) == f"postgres names at 127.0.0.1/{database.name}"
