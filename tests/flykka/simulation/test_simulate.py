"""A whole cluster that counts rows: for every seed, no row is lost or counted twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from flykka.messages.attempt.commands import ReadSplits
from flykka.messages.tasks.source import size_of
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import Turn
from flykka.simulation.settings import FaultKind, SimulationSettings
from flykka.simulation.simulation import simulate

pytestmark = pytest.mark.slow

WITHOUT_FAULTS = SimulationSettings(faults=frozenset())
LONG_SEEDS = 200
BLOCK = 10


@pytest.mark.parametrize(
    "first",
    [
        0,
        *(pytest.param(first, marks=pytest.mark.long) for first in range(BLOCK, LONG_SEEDS, BLOCK)),
    ],
)
def test_every_law_holds_for_every_seed(first: int) -> None:
    failed = {
        seed: [str(violation) for violation in outcome.violations]
        for seed in range(first, first + BLOCK)
        if not (outcome := simulate(seed)).passed
    }

    assert failed == {}


@pytest.mark.parametrize("seed", range(3))
def test_a_run_without_faults_outputs_every_row(seed: int) -> None:
    outcome = simulate(seed, WITHOUT_FAULTS)

    assert outcome.violations == ()
    assert outcome.jobs == ("FINISHED",)
    assert outcome.checkpoints.completed > 0
    assert outcome.rows > 0
    assert outcome.faults == Counter()


def test_equal_seeds_yield_equal_runs() -> None:
    settings = SimulationSettings(digest=True)

    first, again, other = simulate(11, settings), simulate(11, settings), simulate(12, settings)

    assert first == again
    assert first.digest != other.digest


def test_recording_does_not_change_a_run(tmp_path: Path) -> None:
    settings = SimulationSettings(digest=True)

    recorded = simulate(11, replace(settings, trace_path=tmp_path / "run.trace"))

    assert recorded.digest == simulate(11, settings).digest


def test_a_recorded_run_is_a_trace_of_all_its_turns(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"

    outcome = simulate(5, SimulationSettings(trace_path=path))

    trace = TraceReader.open(path)
    records = list(trace.records())
    assert outcome.trace_path == path
    assert trace.header.system == "seed-5"
    assert outcome.turns * 0.9 < sum(isinstance(record, Turn) for record in records) <= outcome.turns


def test_a_backlog_of_small_splits_is_read_several_splits_at_a_time(tmp_path: Path) -> None:
    for seed in range(3):
        simulate(seed, replace(WITHOUT_FAULTS, trace_path=tmp_path / f"{seed}.trace"))

    turns = (record for path in sorted(tmp_path.iterdir()) for record in TraceReader.open(path).records())
    read = [turn.message for turn in turns if isinstance(turn, Turn) and isinstance(turn.message, ReadSplits)]

    assert {1, 2} < {len(each.splits) for each in read}
    assert all(len(each.splits) == 1 or None not in map(size_of, each.splits) for each in read)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind in (FaultKind.KILL, FaultKind.STAGE) else pytest.mark.long)
        for kind in sorted(FaultKind)
    ],
)
def test_only_configured_kinds_of_faults_occur(kind: FaultKind) -> None:
    settings = SimulationSettings(faults=frozenset({kind}))

    happened = sum((simulate(seed, settings).faults for seed in range(2)), Counter[str]())

    assert set(happened) == {kind.value}
