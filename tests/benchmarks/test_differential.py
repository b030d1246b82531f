"""Tests the differential benchmark: how it draws programs, compares results, and shrinks a difference."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from benchmarks.differential.__main__ import Found, try_seeds, try_together
from benchmarks.differential.cases import EQUAL, Case, Mode, Outcome
from benchmarks.differential.choices import Choices
from benchmarks.differential.running import run
from benchmarks.differential.seeds import Drawing, draw, drawing
from benchmarks.differential.shrinking import Shrinking, script
from benchmarks.differential.tables import TYPES, Table, draw_tables

pytestmark = pytest.mark.slow

DAY = 86_400_000_000
COLUMNS = {role: role for role in TYPES}


def file_of_ids(*ids: int, **values: object) -> tuple[dict[str, object], ...]:
    return tuple({**dict.fromkeys(COLUMNS), "id": number, "at": number * DAY, **values} for number in ids)


def table_of_files(
    name: str, *files: tuple[dict[str, object], ...], primary_key: bool = False, late: Sequence[int] = ()
) -> Table:
    return Table(name, COLUMNS, files, primary_key, frozenset(late))


def test_equal_seeds_draw_equal_programs() -> None:
    first, again, other = draw(7), draw(7), draw(8)

    assert repr(first) == repr(again)
    assert repr(first) != repr(other)


def test_programs_run_at_both_parallelisms_with_kills_and_savepoints() -> None:
    ways = [draw(seed)[1] for seed in range(40)]

    assert all({mode.parallelism for mode in modes} | {mode.restored_at for mode in modes} >= {1, 4} for modes in ways)
    assert any(mode.kill for modes in ways for mode in modes)
    assert {(mode.parallelism, mode.restored_at) for modes in ways for mode in modes} >= {(1, 4), (4, 1)}


def test_a_program_can_be_redrawn_from_its_choices() -> None:
    drawings = [each for seed in range(20) for each in draw(seed)[0]]

    for each in drawings:
        assert drawing(each.kind, Choices(each.choices), each.case.tables, each.case.zone) == each


def test_a_join_without_columns_of_equal_type_does_not_change_the_batch() -> None:
    # The last operation of the program is such a join.
    case = draw(572)[0][3].case

    assert "join" not in case.stream
    assert "IS NOT NULL" not in case.truth


def test_the_simplest_values_are_drawn_when_choices_are_exhausted() -> None:
    choices = Choices([2])

    assert [choices.of("abc"), choices.of("abc"), choices.percent(99)] == ["c", "a", False]
    assert choices.recorded == [2, 0, 0]


def test_only_the_newest_of_changing_rows_remain_at_the_end() -> None:
    changes = [
        *file_of_ids(1, 2, 3, row_kind="+I"),
        *file_of_ids(1, k="old", row_kind="-U"),
        *file_of_ids(2, k="new", row_kind="+U"),
        *file_of_ids(3, row_kind="-D"),
    ]

    final = table_of_files("c", tuple(changes[:2]), tuple(changes[2:]), primary_key=True).final_rows()

    assert [(row["id"], row["k"]) for row in final] == [(1, None), (2, "new")]


def kinds(each: Table) -> list[tuple[int, str]]:
    own = each.columns["id"]
    return [(row[own], row["row_kind"]) for file in each.files for row in file]


def test_an_updated_row_is_retracted_with_its_old_values() -> None:
    changing = [each for seed in range(40) for each in draw_tables(random.Random(seed)) if each.has_kinds]

    for each in changing:
        row_kinds = kinds(each)
        assert all(row_kinds[place + 1] == (key, "+U") for place, (key, kind) in enumerate(row_kinds) if kind == "-U")
        assert kinds(each.of_files(each.files)) == row_kinds
    assert any(kind == "-U" for each in changing for _, kind in kinds(each))


def test_an_update_stays_complete_if_rows_are_removed() -> None:
    files = (file_of_ids(1, row_kind="+I"), file_of_ids(1, row_kind="-U"), file_of_ids(1, k="new", row_kind="+U"))
    changing = table_of_files("c", *files, primary_key=True)

    assert kinds(changing.of_files(((),))) == []
    assert kinds(changing.of_files(files[:2])) == [(1, "+I")]
    assert kinds(changing.of_files(files[1:])) == [(1, "+U")]
    assert kinds(changing.of_files(files)) == [(1, "+I"), (1, "-U"), (1, "+U")]


def test_late_rows_are_far_before_the_watermark_and_are_not_counted() -> None:
    for seed in range(20):
        late = next(each for each in draw_tables(random.Random(seed)) if each.late)
        own, at = late.columns["id"], late.columns["at"]
        first = max(row[at] for row in late.files[0])

        ids = {row[own] for file in late.files for row in file}
        assert {row[own] for row in late.final_rows()} == ids - late.late
        assert all(row[at] < first - DAY // 2 for file in late.files for row in file if row[own] in late.late)


def is_wrong(case: Case) -> bool:
    """Return whether a fake product is wrong: its rows with the id 5 are wrong if the program has a filter."""
    return "where" in case.stream and any(row["id"] == 5 for each in case.tables for row in each.final_rows())


def pretended_run(cases: Sequence[Case], mode: Mode) -> list[Outcome]:
    return [Outcome("differs", "wrong", "rows") if is_wrong(case) else Outcome("equal") for case in cases]


def long_drawing() -> Drawing:
    """Return a long program over named columns, with a filter, and the table that it reads."""
    tables = (
        table_of_files("t", file_of_ids(0, 1, 2), file_of_ids(3, 4, 5), file_of_ids(6)),
        table_of_files("u", file_of_ids(1)),
        table_of_files("l", file_of_ids(1)),
    )
    programs = draw(0)[0][-1].kind
    for seed in range(1000):
        each = drawing(programs, Choices(random.Random(seed)), tables, "Europe/Berlin")
        if each.case.stream.count(".") > 5 and is_wrong(each.case) and each.case.stream.startswith("t"):
            return each
    raise AssertionError("no such program among a thousand")


def test_a_difference_shrinks_to_its_operation_and_its_row() -> None:
    drawn = long_drawing()

    shrinking = Shrinking(pretended_run, drawn, Mode(4, kill=True), Outcome("differs", "wrong", "rows"))
    shrinking.shrink()

    assert shrinking.mode == Mode(1)
    assert shrinking.case.zone == "UTC"
    assert len(shrinking.case.stream) < len(drawn.case.stream)
    assert is_wrong(shrinking.case)
    assert [[row["id"] for row in file] for each in shrinking.case.tables for file in each.files if file] == [[5]]


def test_a_generated_script_is_short_and_contains_the_case() -> None:
    files = tuple(file_of_ids(number) for number in range(4))
    case = Case("t", "t.where('false')", tuple(table_of_files(name, *files) for name in ("t", "u", "c")))

    text = script(case, Mode(4, kill=True), "Program 1 of seed 2")
    variables: dict[str, object] = {}
    exec(text.split("spark = ")[0], variables)

    assert len(text.splitlines()) < 40
    assert (variables["STREAM"], variables["BATCH"], variables["TABLES"]) == (case.stream, case.truth, case.tables)


def test_seeds_of_one_time_zone_and_mode_share_jobs() -> None:
    jobs: list[tuple[set[str], Mode, int]] = []

    def equal(cases: Sequence[Case], mode: Mode) -> list[Outcome]:
        jobs.append(({case.zone for case in cases}, mode, len({id(case.tables) for case in cases})))
        return [EQUAL] * len(cases)

    findings = Found()
    try_together(range(40), equal, findings, lambda line: None)

    assert all(len(zones) == 1 for zones, _, _ in jobs)
    assert 1 < max(seeds for _, _, seeds in jobs) <= 4
    assert sum(seeds for _, _, seeds in jobs) == sum(len(draw(seed)[1]) for seed in range(40))
    assert (findings.seeds, findings.outcomes) == (40, {"equal": 200})


def test_a_difference_is_recorded_with_its_seed_and_program() -> None:
    wrong = draw(7)[0][2].case

    def differing_once(cases: Sequence[Case], mode: Mode) -> list[Outcome]:
        return [Outcome("differs", "wrong", "rows") if case == wrong else EQUAL for case in cases]

    findings = Found()
    try_together(range(5, 12), differing_once, findings, lambda line: None)

    assert findings.outcomes == {"equal": 34, "differs": 1}
    assert [(each["seed"], each["program"]) for each in findings.differences] == [(7, 2)]


def test_programs_that_are_all_refused_are_not_run_in_another_mode() -> None:
    jobs: list[int] = []

    def refused(cases: Sequence[Case], mode: Mode) -> list[Outcome]:
        jobs.append(len(cases))
        return [Outcome("refused", "no")] * len(cases)

    findings = Found()
    try_together([2, 3], refused, findings, lambda line: None)

    assert (findings.outcomes, jobs) == ({"refused": 10}, [5, 5])


JUDGED = (
    ("t", "t", "equal"),
    ("t", "t.where('id = 1')", "differs"),
    ("env.sql('SELECT * FROM t TABLESAMPLE (10 PERCENT)')", "t", "refused"),
    ("t.nonsense()", "t", "differs"),
    ("t", "t.where('nonsense')", "differs"),
    ("env.sql('SELECT x, count(*) AS n FROM t GROUP BY x')", "spark.sql('SELECT x, 1L AS n FROM t')", "equal"),
    ("env.sql('SELECT count(*) AS n FROM c')", "spark.sql('SELECT count(*) AS n FROM c')", "equal"),
    ("t", "t.withColumnRenamed('x', 'y')", "differs"),
)


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize("judged", [JUDGED[:5], pytest.param(JUDGED, marks=pytest.mark.long)], ids=["some", "all"])
def test_results_are_compared_with_a_batch(spark: SparkSession, judged: Sequence[tuple[str, str, str]]) -> None:
    tables = (
        table_of_files("t", file_of_ids(1, x=float("nan")), file_of_ids(2, x=-0.0)),
        table_of_files("c", file_of_ids(1, 1), primary_key=True),
    )

    outcomes = run(spark, [Case(stream, truth, tables) for stream, truth, _ in judged], Mode(1))

    assert [outcome.kind for outcome in outcomes] == [kind for _, _, kind in judged]
    assert outcomes[1].why.startswith("1 extra rows, such as [(2, None, None, 0.0")
    assert outcomes[2].why.startswith("SqlError: line 1, column 17: TABLESAMPLE cannot run on a stream")


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.long
def test_a_failing_program_is_found_among_others(spark: SparkSession) -> None:
    tables = (table_of_files("t", file_of_ids(1), file_of_ids(2)),)
    failing = Case("t.map(lambda row: {'id': 1 // 0}, 'id bigint')", "t.select('id')", tables)

    outcomes = run(spark, [Case("t", "t", tables), failing], Mode(1))

    assert [outcome.kind for outcome in outcomes] == ["equal", "differs"]
    assert "ZeroDivisionError" in outcomes[1].why


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.long
def test_a_failing_program_does_not_affect_other_seeds_of_its_job(spark: SparkSession) -> None:
    ours, others = ((table_of_files("t", file_of_ids(number), file_of_ids(number + 1)),) for number in (1, 5))
    failing = Case("t.map(lambda row: {'id': 1 // 0}, 'id bigint')", "t.select('id')", ours)

    outcomes = run(spark, [Case("t", "t", ours), failing, Case("t", "t", others), Case("t", "t", others)], Mode(4))

    assert [outcome.kind for outcome in outcomes] == ["equal", "differs", "equal", "equal"]


def assert_no_difference(spark: SparkSession, seeds: range) -> None:
    report = try_seeds(spark, seeds).as_json()

    assert report["differences"] == []
    assert (report["seeds"], report["differ"]) == (len(seeds), 0)
    equal, refused = report["equal"], report["refused"]
    assert isinstance(equal, int)
    assert isinstance(refused, int)
    assert refused <= equal


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
# Seed 2179 has a kill, seed 2008 a restore.
@pytest.mark.parametrize("seed", [2008, 2179])
def test_a_seeds_output_equals_a_batch(spark: SparkSession, seed: int) -> None:
    assert_no_difference(spark, range(seed, seed + 1))


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(7200)
def test_the_output_of_two_hundred_seeds_equals_a_batch(spark: SparkSession) -> None:
    assert_no_difference(spark, range(200))
