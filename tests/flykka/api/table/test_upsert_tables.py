"""INSERTs that need an operator with one row per key, and the line of this operator in EXPLAIN."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.errors import SqlError
from flykka.spark_bridge.sql.script import statements
from flykka.spark_bridge.worker.upsert_rules import ConflictRule
from tests.flykka.api.table.queries import Queries

pytestmark = pytest.mark.spark

TABLES = {
    "by_auction": ("auction BIGINT, price BIGINT", "auction"),
    "by_both": ("auction BIGINT, channel STRING, price BIGINT", "Channel, auction"),
    "by_bidder": ("Bidder BIGINT, price BIGINT", "bidder"),
    "by_n": ("n BIGINT, total BIGINT", "n"),
    "kinds": ("bidder BIGINT, row_kind STRING", "bidder"),
}
BY_BIDDER = "SELECT bidder, price FROM auction"
DUPLICATES = "SELECT bidder, sum(price) AS price FROM auction GROUP BY bidder, channel"


@pytest.fixture
def tables(queries: Queries, tmp_path: Path) -> Queries:
    for name, (columns, key) in TABLES.items():
        queries.execute_sql(
            f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({key}) NOT ENFORCED) USING delta"
            f" OPTIONS (path '{tmp_path}/{name}')"
        )
    queries.execute_sql(f"CREATE TABLE appended (price BIGINT) USING delta OPTIONS (path '{tmp_path}/appended')")
    return queries


def explained(queries: Queries, insert: str) -> str:
    text = queries.execute_sql(f"EXPLAIN {insert}")
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize(
    ("table", "query", "changelog"),
    [
        ("by_auction", "SELECT auction, price FROM auction", "upserts by auction"),
        ("by_auction", "SELECT auction, price FROM auction ON CONFLICT DO ERROR", "upserts by auction"),
        ("by_auction", "SELECT auction, price FROM bid", "append-only"),
        ("by_auction", "SELECT auction, price FROM bid ON CONFLICT DO DEDUPLICATE", "append-only"),
        ("by_both", "SELECT auction, channel, price FROM auction", "upserts and deletes by channel, auction"),
        (
            "by_both",
            "SELECT auction, 'a', count(*) FROM bid GROUP BY auction",
            "upserts and deletes by channel, auction",
        ),
        ("by_n", "SELECT count(*), max(price) FROM bid", "upserts and deletes by n"),
    ],
)
def test_a_key_that_contains_that_of_the_query_needs_no_state(
    tables: Queries, table: str, query: str, changelog: str
) -> None:
    text = explained(tables, f"INSERT INTO {table} {query}")

    assert "ON CONFLICT" not in text
    assert f"into {table}  {changelog}" in text.splitlines()


@pytest.mark.parametrize(
    ("query", "rule"),
    [
        (BY_BIDDER, "ERROR"),
        (f"{BY_BIDDER}\n  -- keep the dearest\n  on conflict do deduplicate", "DEDUPLICATE"),
        (f"{BY_BIDDER} ON /* the first */ CONFLICT DO NOTHING -- and no other", "NOTHING"),
        (DUPLICATES, "ERROR"),
        ("SELECT bidder, price FROM bid ON CONFLICT DO NOTHING", "NOTHING"),
        ("SELECT bidder, price FROM bid ON CONFLICT DO ERROR", "ERROR"),
        ("SELECT a.bidder, b.price FROM auction a JOIN bid b ON a.auction = b.auction", "ERROR"),
    ],
)
def test_explain_shows_the_operator_of_a_rule_and_its_state(tables: Queries, query: str, rule: str) -> None:
    lines = explained(tables, f"INSERT INTO by_bidder {query}").splitlines()

    (place,) = (number for number, line in enumerate(lines) if "ON CONFLICT" in line and not line.startswith("WARN"))
    operator = lines[place].split("  <- ")[0].split(". ", 1)[1]
    assert operator == f"upserts by(Bidder) ON CONFLICT DO {rule}"
    assert (
        lines[place + 1] == "       keeps the current rows of each key of the table, and the one that it has, forever"
    )
    assert "into by_bidder  upserts and deletes by Bidder" in lines
    assert operator in lines[-1]
    assert "never expires" in lines[-1]


@pytest.mark.parametrize(
    ("query", "changelog"),
    [("SELECT price FROM bid", "append-only"), ("SELECT price FROM auction", "changes of whole rows")],
)
def test_a_table_without_a_key_takes_rows_of_any_query(tables: Queries, query: str, changelog: str) -> None:
    assert f"into appended  {changelog}" in explained(tables, f"INSERT INTO appended {query}").splitlines()


def test_a_column_may_have_the_name_of_a_key_that_is_not_selected(tables: Queries, tmp_path: Path) -> None:
    for table, key in (("whole", ""), ("keyed", ", PRIMARY KEY (bidder) NOT ENFORCED")):
        tables.execute_sql(
            f"CREATE TABLE {table} (bidder BIGINT, auction BIGINT{key}) USING delta OPTIONS (path '{tmp_path}/{table}')"
        )
    executor = tables.statement_executor
    columns = []
    for table in ("whole", "keyed"):
        together = tables.create_statement_set().add_insert_sql(
            f"INSERT INTO {table} SELECT bidder, price AS auction FROM auction"
        )
        (insert,) = together._checked()
        columns.append(executor.statements.insert(*insert).columns)

    assert columns == [["bidder", "auction", "row_kind"]] * 2


def test_each_insert_of_a_statement_set_has_its_own_rule(tables: Queries) -> None:
    together = tables.create_statement_set()
    together.add_insert_sql(f"INSERT INTO by_bidder {BY_BIDDER} ON CONFLICT DO NOTHING")
    together.add_insert_sql("INSERT INTO by_n SELECT bidder, price FROM auction ON CONFLICT DO DEDUPLICATE")

    text = together.explain()

    assert "upserts by(Bidder) ON CONFLICT DO NOTHING" in text
    assert "upserts by(n) ON CONFLICT DO DEDUPLICATE" in text


def test_statements_of_a_script_have_clauses_of_their_own(tables: Queries) -> None:
    script = f"""
        INSERT INTO by_bidder {BY_BIDDER} ON CONFLICT DO NOTHING; -- ON CONFLICT DO ERROR
        EXECUTE STATEMENT SET BEGIN
          INSERT INTO by_bidder {BY_BIDDER};
          INSERT INTO by_bidder {BY_BIDDER} on conflict
            do deduplicate;
        END;
    """
    single, together = statements(script)

    inserts = [tables.statement_executor.parsed_insert(each)[1] for each in (single, *(together.members or ()))]

    clauses = [each.conflict for each in inserts]
    assert [clause and (clause.rule, clause.position.line) for clause in clauses] == [
        (ConflictRule.NOTHING, 2),
        None,
        (ConflictRule.DEDUPLICATE, 5),
    ]


def test_the_rule_changes_neither_uid_nor_state(tables: Queries) -> None:
    operators = []
    for rule in ("ERROR", "NOTHING"):
        executor = tables.statement_executor
        together = tables.create_statement_set().add_insert_sql(
            f"INSERT INTO by_bidder {BY_BIDDER} ON CONFLICT DO {rule}"
        )
        (insert,) = together._checked()
        before = tables.program.transformations
        stream = executor.statements.insert(*insert)
        operator = stream.flow.operator
        operators.append((operator.uid, operator.code.fingerprint))
        tables.program.remove_operators(each for each in tables.program.transformations if each not in before)

    assert (
        operators
        == [("by_bidder.incremental(keyed-process(auction))", "upserts(1 keys of bigint, bigint, bigint)")] * 2
    )


@pytest.mark.parametrize(
    ("insert", "column", "why"),
    [
        (
            "INSERT INTO appended SELECT price FROM bid ON CONFLICT DO NOTHING",
            44,
            "appended, USING delta, has no key",
        ),
        ("INSERT INTO by_n SELECT 1, 2 ON CONFLICT DO UPDATE", 30, "the clause is the last one of a statement"),
        ("SELECT price FROM bid ON CONFLICT DO NOTHING", 23, "ON CONFLICT belongs to an INSERT"),
        ("INSERT INTO kinds SELECT bidder, channel FROM auction", 13, "but kinds has a column of this name: rename it"),
    ],
)
def test_a_clause_without_effect_is_refused(tables: Queries, insert: str, column: int, why: str) -> None:
    with pytest.raises(SqlError) as refused:
        tables.execute_sql(insert)

    assert why in str(refused.value)
    assert refused.value.column == column


def test_columns_that_cannot_be_compared_are_refused(tables: Queries, tmp_path: Path) -> None:
    tables.execute_sql(
        "CREATE TABLE maps (bidder BIGINT, tags MAP<STRING, STRING>, PRIMARY KEY (bidder) NOT ENFORCED) USING delta"
        f" OPTIONS (path '{tmp_path}/maps')"
    )

    with pytest.raises(SqlError, match='cannot contain elements of the "MAP" type'):
        tables.execute_sql("INSERT INTO maps SELECT bidder, map(channel, channel) FROM auction")
