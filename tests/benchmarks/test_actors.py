"""Tests the kernel benchmark: both systems do all the work, and the figures measure what their names state."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.actors.__main__ import main
from benchmarks.actors.flykka_side import FlykkaSide
from benchmarks.actors.population import SIDES, Population
from benchmarks.actors.pykka_side import PykkaSide
from benchmarks.actors.results import as_json, as_table
from benchmarks.actors.rules import HEATS, Contender, Heat, Rules
from benchmarks.actors.side import FAN, Discipline, Latch, Side
from flykka.runtime.trace.file.reader import TraceReader

QUICK = [Discipline.TELL, Discipline.RELAY, Discipline.ASK]
POPULATION = Population(count=100_000, start_s=2.5, stop_s=1.234, rss_mib=400.0)


def _rates() -> dict[tuple[Contender, Discipline], list[float]]:
    """Return flykka's rates of 600, 100 and 600 per second, and Pykka's rates of 100."""
    return {
        (heat.contender, heat.discipline): [100.0, 100.0, 100.0]
        if heat.contender is Contender.PYKKA
        else [600.0, 100.0, 600.0]
        for heat in HEATS
    }


@pytest.mark.parametrize("side", [PykkaSide(), FlykkaSide()], ids=["pykka", "flykka"])
@pytest.mark.parametrize("discipline", QUICK)
def test_each_contender_does_the_measured_work(side: Side, discipline: Discipline) -> None:
    assert 0 < side.measure(discipline, 200) < 10


@pytest.mark.slow
@pytest.mark.parametrize("side", [PykkaSide(), FlykkaSide()], ids=["pykka", "flykka"])
@pytest.mark.parametrize("discipline", [each for each in Discipline if each not in QUICK])
def test_each_library_completes_each_discipline_with_many_actors(side: Side, discipline: Discipline) -> None:
    assert 0 < side.measure(discipline, 2 * FAN) < 60


def test_one_effect_per_turn_is_recorded(tmp_path: Path) -> None:
    FlykkaSide(tmp_path / "trace").measure(Discipline.RELAY, 100)

    turns = [turn for turn in TraceReader.open(tmp_path / "trace") if turn.kind == "message"]

    assert [len(turn.effects) for turn in turns] == [1] * 99 + [0]


@pytest.mark.parametrize("side", SIDES)
def test_a_population_starts_and_stops(side: str) -> None:
    population = SIDES[side](50)

    assert population.count == 50
    assert population.start_s > 0
    assert population.stop_s > 0


def test_ratios_are_computed_from_medians() -> None:
    report = as_json(_rates(), {"flykka": POPULATION, "pykka": POPULATION})

    assert {name: value for name, value in report.items() if name.endswith("_over_pykka")} == {
        "tell_over_pykka": 6.0,
        "tell_recorded_over_pykka": 6.0,
        "relay_over_pykka": 6.0,
        "ask_over_pykka": 6.0,
        "fan_out_over_pykka": 6.0,
        "ring_over_pykka": 6.0,
    }
    assert report["actors"] == {"count": 100_000, "start_s": 2.5, "stop_s": 1.23, "rss_mib": 400.0}


def test_the_table_states_the_targets() -> None:
    table = as_table(as_json(_rates(), {"flykka": POPULATION, "pykka": POPULATION}), Rules(repeat=3))

    assert "| tells into a busy actor | 100 | 600 | 6.00 | 10.0 |" in table
    assert "| 100,000 of flykka | 2.50 s | 1.23 s | 400 MiB |" in table


def test_message_counts_are_multiples_of_the_fan_out() -> None:
    heat = Heat(Contender.FLYKKA, Discipline.FAN_OUT, 200_000)

    assert [Rules(scale=scale).count(heat) for scale in (1.0, 0.0255, 0.0)] == [200_000, 4_000, 2_000]


def test_a_latch_opens_once() -> None:
    latch = Latch(2)

    assert [latch.arrive(), latch.arrive()] == [False, True]
    latch.wait()


@pytest.mark.slow
@pytest.mark.long
def test_the_json_has_the_fields_that_programs_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "--repeat", "1", "--scale", "0", "--population", "100"]) == 0

    report = json.loads(capsys.readouterr().out)
    ratios = {"tell_over_pykka", "tell_recorded_over_pykka", "ask_over_pykka", "fan_out_over_pykka", "actors"}
    assert ratios <= set(report)
    assert set(report["actors"]) == {"count", "start_s", "stop_s", "rss_mib"}
