"""Declared tables: their metadata, the results of their statements, and the uids of their operators."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from flykka.errors import ProgramError, SqlError
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.sql.script import statements
from tests.flykka.api.table.queries import Queries

pytestmark = pytest.mark.spark

BIDS = """
CREATE TABLE made (
  auction BIGINT,
  price DOUBLE,
  WATERMARK FOR at AS at - INTERVAL '5' SECOND,  -- it stands among the columns
  channel STRING,
  `at` TIMESTAMP NOT NULL COMMENT 'when; it was'
) USING datagen OPTIONS (number_of_rows 100, 'fields.auction.maximum' = 9, fields.channel.values 'a, b', seed 3)
COMMENT 'bids'
"""


@pytest.fixture
def queries(spark: SparkSession, tmp_path: Path) -> Queries:
    queries = Queries(spark)
    queries.execute_sql(BIDS)
    queries.execute_sql(f"CREATE TABLE out (auction INT, n BIGINT) USING parquet OPTIONS (path '{tmp_path}/out')")
    queries.execute_sql(
        "CREATE TABLE counts (auction INT NOT NULL, n BIGINT, PRIMARY KEY (auction) NOT ENFORCED) USING delta"
        f" OPTIONS (path '{tmp_path}/counts')"
    )
    return queries


def rows_of_statement(queries: Queries, statement: str) -> list[list[str]]:
    result = queries.execute_sql(statement)
    assert isinstance(result, pd.DataFrame)
    return [list(row) for row in result.itertuples(index=False)]


def test_a_table_is_read_with_its_event_time_and_as_one_source(queries: Queries) -> None:
    stream = queries.sql("SELECT a.auction, a.at FROM made a WHERE price > 0.5")
    queries.sql("SELECT channel FROM made")

    assert stream.columns == ["auction", "at"]
    assert str(stream.flow.type.event_time) == "at"
    sources = [made for made in queries.program.transformations if made.name == "made"]
    assert [(made.uid, made.watermark_delay_ms) for made in sources] == [("made", 5000)]


@pytest.mark.parametrize(
    ("column", "clause"),
    [
        ("`at`", "WATERMARK FOR AT AS At - INTERVAL 5 SECONDS"),
        ("`At`", "WATERMARK FOR at AS at - INTERVAL 5 SECONDS"),
        ("`event.time`", "WATERMARK FOR `event.time` AS `Event.Time` - INTERVAL 5 SECONDS"),
        ("`ti``ck`", "WATERMARK FOR `ti``ck` AS `ti``ck` - INTERVAL 5 SECONDS"),
    ],
)
def test_the_watermark_column_may_have_any_name(queries: Queries, column: str, clause: str) -> None:
    queries.execute_sql(f"CREATE TABLE timed ({column} TIMESTAMP, {clause}) USING datagen OPTIONS (number_of_rows 9)")

    stream = queries.sql(f"SELECT {column}, count(*) AS n FROM timed GROUP BY window({column}, '1 hour'), {column}")

    assert stream.columns == [column.strip("`").replace("``", "`"), "n"]


@pytest.mark.parametrize("other", ["`event`.`time`", "`time`", "`event.time` + INTERVAL 1 SECOND"])
def test_the_watermark_column_may_have_a_dot_in_its_name(queries: Queries, other: str) -> None:
    clause = f"WATERMARK FOR `event.time` AS {other}"

    with pytest.raises(SqlError, match="is the column less a constant interval"):
        queries.execute_sql(f"CREATE TABLE timed (`event.time` TIMESTAMP, {clause}) USING datagen")


def test_describe_lists_columns_watermark_connector_and_changelog(queries: Queries, tmp_path: Path) -> None:
    queries.execute_sql("CREATE TEMPORARY VIEW top (a, n) AS SELECT auction, count(*) FROM made GROUP BY auction")

    assert rows_of_statement(queries, "DESCRIBE made") == [
        ["auction", "bigint"],
        ["price", "double"],
        ["channel", "string"],
        ["at", "timestamp not null"],
        ["# connector", "datagen"],
        ["# source", "datagen of 100 rows"],
        ["# watermark", "at - 5.0 s"],
        ["# changelog", "none"],
        ["# comment", "bids"],
    ]
    assert ["# changelog", "upserts by auction"] in rows_of_statement(queries, "DESC counts")
    assert rows_of_statement(queries, "DESCRIBE top") == [
        ["a", "bigint"],
        ["n", "bigint"],
        ["# changelog", "upserts by a"],
        ["# event time", "none"],
    ]
    assert [row[0] for row in rows_of_statement(queries, "SHOW TABLES")] == ["counts", "made", "out"]
    assert [row[0] for row in rows_of_statement(queries, "SHOW VIEWS")] == ["bid", "timeless", "top"]


def test_dropped_objects_are_not_found(queries: Queries) -> None:
    queries.execute_sql("DROP TABLE made")
    queries.execute_sql("DROP TABLE IF EXISTS made")
    queries.execute_sql("DROP VIEW timeless")

    assert [row[0] for row in rows_of_statement(queries, "SHOW TABLES")] == ["counts", "out"]
    with pytest.raises(SqlError, match="`made` cannot be found"):
        queries.sql("SELECT * FROM made")


def test_functions_of_the_session_are_defined_and_dropped(queries: Queries) -> None:
    queries.execute_sql("CREATE TEMPORARY FUNCTION twice(x DOUBLE) RETURNS DOUBLE RETURN 2 * x")

    assert queries.sql("SELECT twice(price) AS p FROM made").columns == ["p"]
    queries.execute_sql("DROP TEMPORARY FUNCTION twice")


def test_settings_apply_to_the_environment(queries: Queries, tmp_path: Path) -> None:
    queries.execute_sql("SET 'parallelism' = '3'")
    queries.execute_sql("SET checkpoint_interval = 10s;")
    queries.execute_sql(f"SET 'checkpoint_dir' = '{tmp_path}'")
    queries.execute_sql("SET 'runtime_mode' = 'batch'")

    assert queries.defaults.parallelism == 3
    assert (queries.checkpointing.interval_ms, queries.checkpointing.directory) == (10_000, str(tmp_path))
    assert queries.defaults.runtime_mode == "BATCH"
    queries.execute_sql("SET 'sql_state_ttl' = '1h'")
    assert queries.sql_state_ttl_ms == 3_600_000


def test_an_insert_is_explained_with_its_table(queries: Queries) -> None:
    explanation = queries.execute_sql("EXPLAIN INSERT INTO counts SELECT auction, count(*) FROM made GROUP BY auction")

    assert isinstance(explanation, str)
    assert "into counts  upserts by auction" in explanation.splitlines()
    assert "WARNING: the state of 2. aggregate(count(1) AS count(1)) never expires" in explanation
    assert not [made for made in queries.program.transformations if made.kind is OperatorKind.SINK]


def test_a_statement_set_is_one_job_validated_statement_by_statement(queries: Queries) -> None:
    together = queries.create_statement_set()
    with pytest.raises(ProgramError, match="the statement set is empty"):
        together.explain()
    with pytest.raises(SqlError, match="a statement set takes INSERT INTO"):
        together.add_insert_sql("SELECT 1")

    together.add_insert_sql("INSERT INTO counts SELECT auction, count(*) FROM made GROUP BY auction")
    together.add_insert_sql("INSERT INTO out (n, auction) SELECT 1, auction FROM made")

    lines = together.explain().splitlines()
    assert lines[1:3] == ["  1. made", "  2. aggregate(count(1) AS count(1))  <- 1"]
    assert [line for line in lines if line.startswith("into")] == [
        "into counts  upserts by auction",
        "into out  append-only",
    ]


def uids(queries: Queries, statement: str) -> dict[OperatorKind, list[str]]:
    before = queries.program.transformations
    parsed = queries.statement_executor.parsed_insert(statements(statement)[0])
    queries.statement_executor.statements.insert(*parsed)
    made = [each for each in queries.program.transformations if each not in before]
    queries.program.remove_operators(made)
    found: dict[OperatorKind, list[str]] = {}
    for each in made:
        assert not each.has_automatic_uid
        if each.kind is not OperatorKind.STATELESS:
            found.setdefault(each.kind, []).append(each.uid)
    return found


def test_stateful_operators_retain_their_uids_if_a_query_is_changed(queries: Queries) -> None:
    first = uids(queries, "INSERT INTO counts SELECT auction, count(*) FROM made GROUP BY auction")
    changed = uids(
        queries,
        "INSERT INTO counts SELECT cast(auction AS INT), n + 1 FROM (SELECT auction, count(*) AS n, sum(price) AS s"
        " FROM (SELECT *, price * 2 AS d FROM made WHERE price > 0.1) WHERE d > 1 GROUP BY auction)",
    )

    assert first == changed
    assert first[OperatorKind.SOURCE] == ["made"]
    assert first[OperatorKind.SINK] == ["counts.sink"]
    assert first[OperatorKind.GROUP_AGGREGATE] == ["counts.group-aggregate(made)"]


def test_similar_operators_are_numbered_and_those_of_views_use_view_names(queries: Queries) -> None:
    queries.execute_sql(
        "CREATE TEMPORARY VIEW minutes AS SELECT window, auction, count(*) AS n FROM made"
        " GROUP BY auction, window(at, '1 minute')"
    )
    found = uids(
        queries,
        "INSERT INTO out SELECT DISTINCT auction, n FROM minutes"
        " UNION ALL SELECT auction, max(price) FROM made GROUP BY window(at, '1 hour'), auction"
        " UNION ALL SELECT auction, min(price) FROM made GROUP BY window(at, '1 hour'), auction",
    )

    assert found[OperatorKind.WINDOW_AGGREGATE] == [
        "out.window-aggregate(made)",
        "out.window-aggregate(made)-2",
    ]
    assert {made.uid for made in queries.program.transformations} >= {"made", "minutes.window-aggregate(made)"}


def test_scripts_are_split_at_semicolons_outside_literals() -> None:
    script = "SELECT ';' /* ; /* ; */ */ FROM `a;b`; -- ; no\n;\nEXECUTE STATEMENT SET BEGIN\n INSERT INTO x SELECT 1;"
    script += " INSERT INTO y SELECT ';';\nEND;\nSELECT r'\\' AS a, \"it\"\"s;\", 'it\\'s;'"

    first, together, last = statements(script)

    assert first.text.strip() == "SELECT ';' /* ; /* ; */ */ FROM `a;b`"
    assert (first.is_ended, together.is_ended, last.is_ended) == (True, True, False)
    assert [(each.position.line, each.position.column) for each in (first, together, last)] == [(1, 1), (3, 1), (6, 1)]
    assert together.members is not None
    assert [(each.text.strip(), each.position.column) for each in together.members] == [
        ("INSERT INTO x SELECT 1", 2),
        ("INSERT INTO y SELECT ';'", 26),
    ]
    assert last.text.strip() == "SELECT r'\\' AS a, \"it\"\"s;\", 'it\\'s;'"
    assert {len(each.text) for each in (first, together, last)} == {len(script)}
