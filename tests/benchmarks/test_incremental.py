"""Tests the benchmark of TPC-H and TPC-DS as streams of changes: the changes, the comparison, and all its queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from benchmarks.incremental import suites
from benchmarks.incremental.__main__ import main
from benchmarks.incremental.changes import steps
from benchmarks.incremental.checking import SETTINGS, Checking, Mode
from benchmarks.incremental.comparison import CurrentRows, adds_floating_values, are_close, are_other_first_rows
from benchmarks.incremental.data import prepared
from benchmarks.incremental.measuring import Measured, as_json
from benchmarks.incremental.suites import SUITES, SuiteName
from flykka.api.streams.stream_type import Changelog
from flykka.spark_bridge.sql.plan_node import PlanNode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("name", SuiteName)
def test_changes_add_up_to_the_rows_after_each_step(name: SuiteName) -> None:
    suite = SUITES[name]
    current: dict[str, Counter[tuple[Any, ...]]] = {table: Counter() for table in suite.keys}
    kinds: set[str] = set()

    for number, step in enumerate(steps(suite, 0.01, 2, 0.01, seed=3)):
        for table, changes in step.changes.items():
            for *row, kind in zip(*(column.to_pylist() for column in changes.columns), strict=True):
                kinds.add(kind)
                current[table][tuple(row)] += 1 if kind.startswith("+") else -1
            keys = step.rows[table].select(suite.keys[table])
            assert rows_of(keys).most_common(1)[0][1] == 1
        assert all(
            {row: count for row, count in current[table].items() if count} == rows_of(rows)
            for table, rows in step.rows.items()
        )
        assert (number == 0) == (kinds == {"+I"})
    assert kinds == {"+I", "-U", "+U", "-D"}


@pytest.mark.slow
def test_steps_of_one_seed_are_the_same() -> None:
    first, second = ([dict(step.changes) for step in steps(SUITES[SuiteName.TPCH], 0.001, 2, 0.01, 5)] for _ in "ab")

    assert first == second


def test_names_of_columns_and_aliases_are_not_tables_read() -> None:
    suite = SUITES[SuiteName.TPCDS]

    read = suite.tables_read(suite.queries["q49"])

    assert "item" in suite.queries["q49"]
    assert "store" in suite.queries["q49"]
    sold = [f"{channel}_{rows}" for channel in ("catalog", "store", "web") for rows in ("returns", "sales")]
    assert read == sorted([*sold, "date_dim"])


def test_rows_with_keys_replace_each_other() -> None:
    current = CurrentRows(Changelog(keys=("k",), row_kind="kind"), ["k", "v", "kind"])

    current.apply([{"k": 1, "v": "a", "kind": "+I"}, {"k": 2, "v": "b", "kind": "+I"}])
    current.apply([{"k": 1, "v": "c", "kind": "+U"}, {"k": 2, "v": "b", "kind": "-D"}])

    assert current.rows == {(1, "c"): 1}


def test_whole_rows_are_counted() -> None:
    current = CurrentRows(Changelog(row_kind="kind"), ["v", "kind"])

    current.apply([{"v": "a", "kind": kind} for kind in ("+I", "+I", "-D")])
    current.apply([{"v": "b", "kind": "-D"}])

    assert current.rows == {("a",): 1, ("b",): -1}


@pytest.mark.parametrize(
    ("rows", "expected", "is_equal"),
    [
        ([("a", 1.0)], [("a", 1.0 + 1e-12)], True),
        ([("a", 1.0)], [("a", 1.0001)], False),
        ([("a", 1.0), ("a", 2.0)], [("a", 2.0), ("a", 1.0)], True),
        ([("a", 1.0)], [("b", 1.0)], False),
        ([("a", 1.0)], [("a", 1.0), ("a", 1.0)], False),
        ([("a", float("nan"))], [("a", float("nan"))], True),
    ],
)
def test_only_small_differences_of_floating_values_are_close(
    rows: list[tuple[Any, ...]], expected: list[tuple[Any, ...]], is_equal: bool
) -> None:
    assert are_close(Counter(rows), Counter(expected)) == is_equal


@pytest.mark.spark
@pytest.mark.parametrize(
    ("query", "is_floating"),
    [
        ("SELECT sum(CAST(id AS DOUBLE)) FROM range(3)", True),
        ("SELECT stddev(id) FROM range(3)", True),
        ("SELECT avg(id) OVER (), CAST(id AS DOUBLE) + 1 FROM range(3)", False),
        ("SELECT id FROM range(3) WHERE id < (SELECT avg(CAST(id AS FLOAT)) FROM range(3))", True),
        ("SELECT avg(CAST(id AS DECIMAL(7, 2))) FROM range(3)", False),
    ],
)
def test_queries_that_add_floating_values_are_recognized(spark: SparkSession, query: str, is_floating: bool) -> None:
    assert adds_floating_values(PlanNode(spark.sql(query)._jdf.queryExecution().analyzed())) == is_floating


@pytest.mark.spark
@pytest.mark.parametrize(
    ("rows", "is_answer"),
    [
        ([(0, 0), (1, 2)], True),
        ([(0, 0), (1, 4)], True),
        ([(0, 0), (1, 6)], False),
        ([(1, 2), (1, 4)], False),
        ([(0, 0)], False),
    ],
)
def test_rows_that_are_equal_in_the_order_may_replace_each_other(
    spark: SparkSession, rows: list[tuple[Any, ...]], is_answer: bool
) -> None:
    frame = spark.sql("SELECT least(id, 1) AS k, 2 * id AS v FROM range(3) ORDER BY k LIMIT 2")

    assert are_other_first_rows(frame, Counter(rows)) == is_answer


def test_the_ratio_is_that_of_medians_without_the_first_change() -> None:
    measured = Measured(
        first_step_s=9.0,
        steps_s=(8.0, 1.0, 3.0, 2.0),
        batches_s=(6.0, 5.0, 7.0),
        spark_jobs=3,
        state_bytes=10,
        difference=None,
    )

    figures = as_json({"q1": measured, "q2": "refused"})

    assert figures["q1"]["step_s"] == 2.0
    assert figures["q1"]["recompute_over_incremental"] == 3.0
    assert (figures["geometric_mean"], figures["equal"], figures["not_run"]) == (3.0, 1, {"q2": "refused"})


def test_an_unknown_query_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--queries", "q23"])

    assert "tpch has no query q23, but q1 to q22" in capsys.readouterr().err


def test_a_savepoint_is_not_restored_at_parallelism_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--check", "--parallelism", "4", "--restored-at", "1"])

    assert "--restored-at needs two values above 1" in capsys.readouterr().err


@pytest.fixture
def quoting_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, with settings for the texts of DuckDB."""
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    for name in SETTINGS:
        spark.conf.unset(name)


MODES = (Mode(), Mode(parallelism=4, kill=True), Mode(parallelism=4, restored_at=2))


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(10_800)
@pytest.mark.parametrize("name", SuiteName)
@pytest.mark.parametrize("mode", MODES, ids=["at 1", "at 4 with a kill", "at 4, then at 2"])
def test_all_queries_equal_the_batch_at_each_step(
    quoting_spark: SparkSession, name: SuiteName, mode: Mode, tmp_path: Path
) -> None:
    suite = SUITES[name]
    data = prepared(suite, 0.01, 4, 0.01, with_rows_of_all=True)

    assert Checking(quoting_spark, data, tmp_path, print).run(suite.checked, mode) == []


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SELECT count(*) AS n, sum(n_regionkey) AS s FROM nation", None),
        ("SELECT n_name FROM nation TABLESAMPLE (10 PERCENT)", "refused"),
        pytest.param("SELECT raise_error(n_name) AS e FROM nation", "fails", marks=pytest.mark.long),
    ],
)
def test_problems_of_queries_are_reported(
    quoting_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, kind: str | None
) -> None:
    suite = SUITES[SuiteName.TPCH]
    monkeypatch.setattr(suites, "_queries", lambda name: [("q1", text)])
    data = prepared(suite, 0.01, 1, 0.01, with_rows_of_all=True)

    problems = Checking(quoting_spark, data, tmp_path, print).run(["q1"], Mode())

    assert [each.kind for each in problems] == ([] if kind is None else [kind])
