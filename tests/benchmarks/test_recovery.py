"""Tests the recovery benchmark: which rows count as lost or duplicated, when processes are killed, and the output."""

from __future__ import annotations

import random
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.recovery import sales
from benchmarks.recovery.__main__ import main
from benchmarks.recovery.counting import Counted, counted
from benchmarks.recovery.fault_injection import Kind
from benchmarks.recovery.kills import Kill, Kills
from benchmarks.recovery.moments import MOST_OF_A_KIND, Moment, Observed, drawn, inject_at
from benchmarks.recovery.outage import Outage
from benchmarks.recovery.results import as_json, as_text
from benchmarks.recovery.times import Times
from flykka.runtime.testing.systems import TestSeededSystem
from tests.runtime.scripted_actors import Say, scripted_actor

pytestmark = pytest.mark.slow

EXPECTED = sales.table()
HOURS = (
    EXPECTED.assign(window_start=EXPECTED["at"].dt.floor("h"))
    .groupby(["window_start", "shop"], as_index=False)
    .agg(sales=("sale", "size"), total=("amount", "sum"))
)


SO_FAR = pd.concat(
    EXPECTED.head(rows).groupby("shop", as_index=False).agg(sales=("sale", "size"), total=("amount", "sum"))
    for rows in (1_000, 2_500, len(EXPECTED))
)


def count_output(
    folder: Path, each: pd.DataFrame = EXPECTED, hourly: pd.DataFrame = HOURS, so_far: pd.DataFrame = SO_FAR
) -> Counted:
    outputs = (
        (sales.each(folder), each),
        (sales.each_again(folder), EXPECTED),
        (sales.hourly(folder), hourly),
        (sales.so_far(folder), so_far),
    )
    for output, rows in outputs:
        output.mkdir(parents=True)
        rows.to_parquet(output / "part.parquet", index=False)
    return counted(folder, EXPECTED)


def changed_hours(column: str, by: list[int]) -> pd.DataFrame:
    """Return the sums of all hours, with the first ones changed by `by`."""
    return HOURS.assign(**{column: HOURS[column] + [*by, *[0] * (len(HOURS) - len(by))]})


def test_the_expected_output_is_counted_as_correct(tmp_path: Path) -> None:
    assert count_output(tmp_path) == Counted()


def test_a_missing_row_is_counted_as_lost(tmp_path: Path) -> None:
    assert count_output(tmp_path, each=EXPECTED.drop(index=[3, 4])) == Counted(lost=2)


def test_a_repeated_row_is_counted_as_duplicated(tmp_path: Path) -> None:
    assert count_output(tmp_path, each=pd.concat([EXPECTED, EXPECTED.head(3)])) == Counted(duplicated=3)


def test_a_changed_row_is_counted_as_lost(tmp_path: Path) -> None:
    wrong = EXPECTED.assign(amount=EXPECTED["amount"].where(EXPECTED["sale"] != 5, 0))

    assert count_output(tmp_path, each=wrong) == Counted(lost=1)


def test_an_invented_row_is_counted_as_duplicated(tmp_path: Path) -> None:
    foreign = EXPECTED.head(1).assign(sale=len(EXPECTED))

    assert count_output(tmp_path, each=pd.concat([EXPECTED, foreign])) == Counted(duplicated=1)


def test_wrong_sums_are_counted_as_lost_and_duplicated_sales(tmp_path: Path) -> None:
    assert count_output(tmp_path, hourly=changed_hours("sales", [2, -1])) == Counted(lost=1, duplicated=2)


def test_a_wrong_total_with_the_correct_count_is_counted_as_lost(tmp_path: Path) -> None:
    assert count_output(tmp_path, hourly=changed_hours("total", [1])) == Counted(lost=1)


def test_a_repeated_hour_is_counted_as_duplicated(tmp_path: Path) -> None:
    counts = count_output(tmp_path, hourly=pd.concat([HOURS, HOURS.head(1)]))

    assert counts.lost == 0
    assert counts.duplicated == 1 + HOURS["sales"].iloc[0]


def test_a_repeated_running_sum_is_counted_as_duplicated(tmp_path: Path) -> None:
    assert count_output(tmp_path, so_far=pd.concat([SO_FAR, SO_FAR.head(2)])) == Counted(duplicated=2)


@pytest.mark.parametrize(
    ("column", "by", "found"),
    [
        ("sales", -3, Counted(lost=3)),
        ("sales", 4, Counted(duplicated=4)),
        ("total", 1, Counted(lost=1)),
    ],
)
def test_the_last_running_sum_contains_all_sales_once(tmp_path: Path, column: str, by: int, found: Counted) -> None:
    last = SO_FAR.tail(1)

    wrong = pd.concat([SO_FAR.iloc[:-1], last.assign(**{column: last[column] + by})])

    assert count_output(tmp_path, so_far=wrong) == found


def test_all_rows_of_an_empty_output_are_counted_as_lost(tmp_path: Path) -> None:
    assert counted(tmp_path, EXPECTED) == Counted(lost=4 * len(EXPECTED))


def test_rare_and_frequent_message_types_are_drawn_equally_often() -> None:
    chance = random.Random(1)

    moments = [drawn(chance, {"Often": 10_000, "Once": 1}) for _ in range(1_000)]

    assert 400 < sum(moment.message == "Once" for moment in moments) < 600
    assert max(moment.count for moment in moments) == MOST_OF_A_KIND
    assert all(moment.count == 1 for moment in moments if moment.message == "Once")


def test_a_fault_precedes_its_message_and_occurs_once(seeded_system: TestSeededSystem) -> None:
    log: list[str] = []
    actor = seeded_system.spawn(scripted_actor(log), "actor")
    observed = Observed(seeded_system)

    def act() -> bool:
        log.append("killed")
        return True

    fault = inject_at(seeded_system, Moment(message="Say", count=2), act)
    for word in ("one", "two", "three"):
        actor.tell(Say(text=word))
    seeded_system.run_until_idle()

    assert log == ["actor start", "actor one", "killed", "actor two", "actor three"]
    assert fault.done
    assert observed.messages["Say"] == 3


def test_a_fault_waits_until_its_target_exists(seeded_system: TestSeededSystem) -> None:
    tries: list[int] = []
    actor = seeded_system.spawn(scripted_actor([]), "actor")

    def act() -> bool:
        tries.append(len(tries))
        return len(tries) == 2

    fault = inject_at(seeded_system, Moment(message="Say", count=1), act)
    for word in ("one", "two", "three"):
        actor.tell(Say(text=word))
        seeded_system.run_until_idle()

    assert tries == [0, 1]
    assert fault.done


def test_an_unavailable_folder_is_unwritable_and_later_restored_unchanged(tmp_path: Path) -> None:
    folder = tmp_path / "output"
    folder.mkdir()
    (folder / "part").write_text("rows")

    outage = Outage(folder)
    with pytest.raises(FileExistsError):
        folder.mkdir()
    with pytest.raises(NotADirectoryError):
        (folder / "part").read_text()
    outage.end()

    assert (folder / "part").read_text() == "rows"


def test_the_json_summarises_kills_and_times() -> None:
    moment = Moment(message="Say", count=1)
    kills = [
        Kill(number=0, kind=Kind.TASK, moment=moment, found=Counted()),
        Kill(number=1, kind=Kind.TASK, moment=moment, found=Counted(lost=2, duplicated=1), end="it failed"),
    ]
    report = as_json(kills, Times(recoveries=[1.0, 3.0, 2.0], restarts=[4.0], takeovers=[5.0, 7.0]))

    assert [kill.is_right for kill in kills] == [True, False]
    assert report == {
        "exactly_once_kills": {"tried": 2, "lost": 2, "duplicated": 1, "ended_badly": 1, "by_kind": {"task": 2}},
        "recovery_s": {"median": 2.0, "p95": 3.0},
        "structured_streaming_restart_s": 4.0,
        "driver_takeover_s": 6.0,
    }
    assert "2 rows lost, 1 duplicated" in as_text(report, seed=7)


def test_unmeasured_figures_are_not_printed() -> None:
    report = as_json([], Times())

    assert report["recovery_s"] == {"median": None, "p95": None}
    assert "Structured Streaming" not in as_text(report, seed=7)


def test_unknown_kinds_of_faults_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "moon"])

    assert "moon" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.long
def test_kills_reach_their_targets_and_the_output_is_correct(tmp_path: Path) -> None:
    lines: list[str] = []

    kills = list(Kills(tmp_path, 1, 3, (Kind.TASK, Kind.JOB_MASTER, Kind.STORAGE), lines.append).run())

    assert [kill.kind for kill in kills] == [Kind.TASK, Kind.JOB_MASTER, Kind.STORAGE]
    assert all(kill.is_right for kill in kills), kills
    assert len(lines) == 4
