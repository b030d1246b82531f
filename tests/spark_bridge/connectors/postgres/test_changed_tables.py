"""Tests changes of partitions, inheriting tables and replica identities: the changes are read, or refused with the
table's name.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from flykka.connectors import FileSystem, OperatorId, SourceError
from flykka.connectors.testing import Row
from flykka.spark_bridge.connectors.postgres.cdc_source import PostgresCdcSource
from flykka.spark_bridge.errors import MissingChangesError
from tests.spark_bridge.connectors.postgres.reading import changes_since, discover_all_splits, read_splits
from tests.spark_bridge.connectors.postgres.server import Database
from tests.spark_bridge.connectors.postgres.writing import expect_refusal

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def of_table(database: Database, table: str) -> PostgresCdcSource:
    return PostgresCdcSource.of_table(database.conninfo, table, slot=f"slot_{database.name}")


def applied(rows: list[Row], key: int = 0) -> dict[object, Row]:
    state: dict[object, Row] = {}
    for row in rows:
        if row[-1] == "-D":
            state.pop(row[key], None)
        else:
            state[row[key]] = row[:-1]
    return state


@pytest.fixture
def parts(database: Database) -> PostgresCdcSource:
    database.run(
        "CREATE TABLE parts (id int PRIMARY KEY, name text) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (10)",
        "INSERT INTO parts VALUES (1, 'a')",
        "CREATE TABLE later (id int PRIMARY KEY, name text)",
    )
    return of_table(database, "parts")


# Rows in other tables


def test_rows_of_inheriting_tables_are_read_with_their_changes(spark: SparkSession, database: Database) -> None:
    database.run(
        "CREATE TABLE people (id int PRIMARY KEY, name text)",
        "CREATE TABLE staff (extra text, PRIMARY KEY (id)) INHERITS (people)",
        "CREATE TABLE bosses (PRIMARY KEY (id)) INHERITS (staff)",
        "INSERT INTO people VALUES (1, 'a')",
        "INSERT INTO staff VALUES (2, 'b', 'x')",
    )
    source = of_table(database, "people")
    begun = discover_all_splits(source)
    database.run(
        "UPDATE people SET name = upper(name)",
        "INSERT INTO bosses VALUES (3, 'c', 'y')",
        "DELETE FROM people WHERE id = 1",
    )
    rows = read_splits(spark, source, begun) + changes_since(spark, source, begun.position)

    assert applied(rows) == {2: (2, "B"), 3: (3, "c")}


def test_a_later_inheriting_table_must_be_published(spark: SparkSession, database: Database) -> None:
    database.run("CREATE TABLE people (id int PRIMARY KEY)")
    source = of_table(database, "people")
    begun = discover_all_splits(source)
    database.run("CREATE TABLE staff (PRIMARY KEY (id)) INHERITS (people)")

    with pytest.raises(SourceError, match=r"does not contain public\.staff, which belongs to public\.people: ALTER"):
        discover_all_splits(source, begun.position)


def test_a_partition_created_while_the_job_runs_is_read(
    spark: SparkSession, database: Database, parts: PostgresCdcSource
) -> None:
    begun = discover_all_splits(parts)
    with database.connection() as one:
        one.execute("CREATE TABLE high PARTITION OF parts FOR VALUES FROM (10) TO (20)")
        one.execute("INSERT INTO parts VALUES (11, 'b')")
    database.run("UPDATE parts SET id = 12 WHERE id = 1", "CREATE TABLE top PARTITION OF parts DEFAULT")

    assert changes_since(spark, parts, begun.position) == [(11, "b", "+I"), (1, None, "-D"), (12, "a", "+I")]


@pytest.mark.parametrize("at_once", [True, pytest.param(False, marks=pytest.mark.long)])
def test_attaching_a_partition_with_rows_fails_the_job(
    spark: SparkSession, database: Database, parts: PostgresCdcSource, at_once: bool
) -> None:
    begun = discover_all_splits(parts)
    if at_once:
        database.run("DROP TABLE later")
    with database.connection() as one:
        if at_once:
            one.execute("CREATE TABLE later (id int PRIMARY KEY, name text)")
        one.execute("INSERT INTO later VALUES (11, 'b')")
        if not at_once:
            one.commit()
        one.execute("ALTER TABLE parts ATTACH PARTITION later FOR VALUES FROM (10) TO (20)")

    with pytest.raises(
        MissingChangesError, match=r"public\.later contained rows already when it was attached to public\.parts"
    ):
        discover_all_splits(parts, begun.position)


def test_attaching_a_partitioned_table_with_rows_fails_the_job(
    spark: SparkSession, database: Database, parts: PostgresCdcSource
) -> None:
    begun = discover_all_splits(parts)
    database.run(
        "CREATE TABLE tree (id int PRIMARY KEY, name text) PARTITION BY RANGE (id)",
        "CREATE TABLE leaf PARTITION OF tree DEFAULT",
        "INSERT INTO tree VALUES (11, 'b')",
        "ALTER TABLE parts ATTACH PARTITION tree FOR VALUES FROM (10) TO (20)",
    )

    with pytest.raises(MissingChangesError, match=r"public\.leaf contained rows already"):
        discover_all_splits(parts, begun.position)


def test_attaching_an_empty_table_is_allowed(spark: SparkSession, database: Database, parts: PostgresCdcSource) -> None:
    begun = discover_all_splits(parts)
    database.run(
        "INSERT INTO later VALUES (11, 'gone')",
        "DELETE FROM later",
        "ALTER TABLE parts ATTACH PARTITION later FOR VALUES FROM (10) TO (20)",
        "INSERT INTO parts VALUES (12, 'b')",
    )

    assert changes_since(spark, parts, begun.position) == [(12, "b", "+I")]


@pytest.mark.parametrize(
    "change", ["DROP TABLE low", pytest.param("ALTER TABLE parts DETACH PARTITION low", marks=pytest.mark.long)]
)
def test_detaching_a_partition_with_rows_fails_the_job_unless_allowed(
    spark: SparkSession, database: Database, parts: PostgresCdcSource, change: str
) -> None:
    begun = discover_all_splits(parts)
    database.run("UPDATE parts SET name = 'A'", change)

    with pytest.raises(MissingChangesError, match=r"no longer belongs to public\.parts.*on_truncate="):
        discover_all_splits(parts, begun.position)
    assert changes_since(spark, replace(parts, on_truncate="ignore"), begun.position) == [(1, "A", "+U")]


# Rows removed without a change event


@pytest.mark.parametrize("table", [pytest.param("parts", marks=pytest.mark.long), "low"])
def test_truncate_fails_the_job_unless_allowed(
    spark: SparkSession, database: Database, parts: PostgresCdcSource, table: str
) -> None:
    begun = discover_all_splits(parts)
    database.run(f"TRUNCATE {table}", "INSERT INTO parts VALUES (2, 'b')")
    truncated = discover_all_splits(parts, begun.position)

    with expect_refusal(r"postgres-cdc parts .*: TRUNCATE at .* has removed rows"):
        read_splits(spark, parts, truncated)
    assert read_splits(spark, replace(parts, on_truncate="ignore"), truncated) == [(2, "b", "+I")]


def test_a_truncation_before_the_snapshot_or_of_another_table_is_ignored(
    spark: SparkSession, database: Database, parts: PostgresCdcSource
) -> None:
    discover_all_splits(parts.start_from("latest-offset"))
    database.run(f"ALTER PUBLICATION {parts.slot.name} ADD TABLE later", "TRUNCATE parts", "TRUNCATE later")
    begun = discover_all_splits(parts)
    database.run("TRUNCATE later", "INSERT INTO parts VALUES (2, 'b')")

    assert changes_since(spark, parts, begun.position) == [(2, "b", "+I")]


# The logged columns of a changed row


def test_an_index_as_replica_identity_must_contain_the_key(spark: SparkSession, database: Database) -> None:
    database.run(
        "CREATE TABLE codes (id int PRIMARY KEY, code text NOT NULL, name text)",
        "CREATE UNIQUE INDEX of_code ON codes (code)",
        "CREATE UNIQUE INDEX of_both ON codes (code, id)",
        "ALTER TABLE codes REPLICA IDENTITY USING INDEX of_code",
    )
    source = of_table(database, "codes")
    with pytest.raises(
        SourceError, match=r"row of public\.codes .* contains only code, .* not the key column 'id': ALTER"
    ):
        source.bound(spark, None)

    database.run("ALTER TABLE codes REPLICA IDENTITY USING INDEX of_both", "INSERT INTO codes VALUES (1, 'a', 'x')")
    begun = discover_all_splits(source)
    database.run("UPDATE codes SET code = 'b'", "UPDATE codes SET id = 2", "DELETE FROM codes")

    assert changes_since(spark, source, begun.position) == [
        (1, "b", "x", "+U"),
        (1, "b", None, "-D"),
        (2, "b", "x", "+I"),
        (2, "b", None, "-D"),
    ]


def test_an_index_is_the_key_of_a_table_without_a_primary_key(spark: SparkSession, database: Database) -> None:
    database.run(
        "CREATE TABLE codes (code text NOT NULL UNIQUE, name text)",
        "ALTER TABLE codes REPLICA IDENTITY USING INDEX codes_code_key",
        "INSERT INTO codes VALUES ('a', 'x')",
    )
    source = of_table(database, "codes")
    begun = discover_all_splits(source)
    database.run("UPDATE codes SET code = 'b'")

    assert changes_since(spark, source, begun.position) == [("a", None, "-D"), ("b", "x", "+I")]


@pytest.mark.parametrize("key", [pytest.param("PRIMARY KEY (id) DEFERRABLE", marks=pytest.mark.long), "UNIQUE (id)"])
def test_a_full_replica_identity_removes_old_rows(spark: SparkSession, database: Database, key: str) -> None:
    database.run(
        f"CREATE TABLE names (id int, name text, {key})",
        "ALTER TABLE names REPLICA IDENTITY FULL",
        "INSERT INTO names VALUES (1, 'a'), (2, 'b'), (3, NULL)",
    )
    source = of_table(database, "names")
    begun = discover_all_splits(source)
    database.run("UPDATE names SET id = id + 100 WHERE id < 3", "DELETE FROM names WHERE id = 3")

    assert changes_since(spark, source, begun.position) == [
        (1, "a", "-D"),
        (101, "a", "+I"),
        (2, "b", "-D"),
        (102, "b", "+I"),
        (3, None, "-D"),
    ]


def test_a_row_without_a_key_is_replaced_as_a_whole(spark: SparkSession, database: Database) -> None:
    database.run(
        "CREATE TABLE names (id int, name text)",
        "ALTER TABLE names REPLICA IDENTITY FULL",
        "INSERT INTO names VALUES (1, 'a')",
    )
    source = of_table(database, "names")
    begun = discover_all_splits(source)
    database.run("UPDATE names SET name = 'b'", "UPDATE names SET name = name")

    assert changes_since(spark, source, begun.position) == [(1, "a", "-D"), (1, "b", "+I"), (1, "b", "+U")]


def test_a_replica_identity_that_temporarily_had_no_key_is_refused(
    spark: SparkSession, database: Database, table: PostgresCdcSource
) -> None:
    database.run("CREATE UNIQUE INDEX of_name ON names (name)", "ALTER TABLE names ALTER name SET NOT NULL")
    begun = discover_all_splits(table)
    database.run(
        "ALTER TABLE names REPLICA IDENTITY USING INDEX of_name",
        "INSERT INTO names VALUES (1, 'a')",
        "DELETE FROM names",
        "ALTER TABLE names REPLICA IDENTITY DEFAULT",
    )

    with expect_refusal(r"the log of public\.names does not contain 'id' of the row that was changed at"):
        changes_since(spark, table, begun.position)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("ALTER TABLE low REPLICA IDENTITY NOTHING", r"public\.low .* has no primary key"),
        ("ALTER TABLE low SET UNLOGGED", r"public\.low .* is an unlogged table"),
    ],
)
def test_a_partition_with_unpublished_changes_is_refused(
    spark: SparkSession, database: Database, parts: PostgresCdcSource, change: str, text: str
) -> None:
    database.run(change)

    with pytest.raises(SourceError, match=text):
        parts.bound(spark, None)


# The publication


@pytest.mark.parametrize(
    ("publication", "text"),
    [
        ("FOR TABLE names WHERE (id > 5)", "has a row filter or a column list for names"),
        pytest.param("FOR TABLE names (id)", "has a row filter or a column list for names", marks=pytest.mark.long),
        (
            "FOR TABLE names WITH (publish = 'insert')",
            "does not publish all changes of public.names: ALTER PUBLICATION",
        ),
        pytest.param(
            "FOR TABLE names WITH (publish = 'insert, update, delete')",
            "does not publish all changes of public.names",
            marks=pytest.mark.long,
        ),
    ],
)
def test_an_incomplete_publication_is_refused_before_and_during_the_job(
    spark: SparkSession, database: Database, table: PostgresCdcSource, publication: str, text: str
) -> None:
    begun = discover_all_splits(table)
    database.run(
        f"DROP PUBLICATION {table.slot.name}",
        f"CREATE PUBLICATION {table.slot.name} {publication}",
    )

    with pytest.raises(SourceError, match=text):
        table.check_input(OperatorId("source"), FileSystem(spark))
    with pytest.raises(SourceError, match=text):
        discover_all_splits(table, begun.position)


def test_a_publication_by_roots_lacks_truncations_of_partitions(
    spark: SparkSession, database: Database, parts: PostgresCdcSource
) -> None:
    database.run(f"CREATE PUBLICATION {parts.slot.name} FOR TABLE parts WITH (publish_via_partition_root = true)")

    with pytest.raises(SourceError, match=r"publish_via_partition_root = false"):
        parts.check_input(OperatorId("source"), FileSystem(spark))


def test_row_level_security_that_hides_rows_is_refused(spark: SparkSession, database: Database) -> None:
    user = f"reader_{database.name}"
    database.run(
        "CREATE TABLE names (id int PRIMARY KEY)",
        "ALTER TABLE names ENABLE ROW LEVEL SECURITY",
        f"CREATE ROLE {user} LOGIN REPLICATION PASSWORD 'plain'",
        f"GRANT SELECT ON names TO {user}",
    )
    source = PostgresCdcSource.of_table(f"{database.conninfo} user={user} password=plain", "names", slot="secure")

    with pytest.raises(SourceError, match=f"row-level security hides rows of public.names .* from {user}"):
        source.check_input(OperatorId("source"), FileSystem(spark))
