"""A failing scenario is shrunk as long as it violates the same law, and becomes a test that fails only with the bug."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from flykka.actors.machines.job_graph.validation import check_job_graph
from flykka.cli.main import main
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint
from flykka.messages.wire.ids import JobId
from flykka.monitors.monitor import Violation
from flykka.simulation.operators import Source
from flykka.simulation.scenario import Fault, Scenario, job_graph
from flykka.simulation.scenario_drawing import draw_scenario
from flykka.simulation.scenario_form import ScenarioError, from_json, scenario_of, to_json
from flykka.simulation.settings import FaultKind, SimulationSettings
from flykka.simulation.shrink import law_of, shrink, smaller_topologies, violations_of
from flykka.simulation.shrink_test import write_test
from flykka.simulation.simulation import run
from tests.flykka.simulation.planted_bugs import PLANTED_BUGS, an_acknowledgement_counts_twice
from tests.histories import HISTORIES

COUNTS_TWICE = next(bug for bug in PLANTED_BUGS if bug.plant is an_acknowledgement_counts_twice)
DOUBLED = SimulationSettings(faults=frozenset({FaultKind.DUPLICATE}))
NARROW_SEED = 135


def faults_of(scenario: Scenario) -> list[FaultKind]:
    return [fault.kind for plan in scenario.jobs for fault in plan.faults]


def number_of_rows(scenario: Scenario) -> int:
    behaviours = scenario.topology.program.behaviours.values()
    return sum(behaviour.rows for behaviour in behaviours if isinstance(behaviour, Source))


def large_scenario() -> Scenario:
    """Return the first scenario with a crash among its faults and with events of every kind."""
    drawn = (draw_scenario(seed, SimulationSettings(max_faults=8)) for seed in range(1_000))
    return next(s for s in drawn if FaultKind.CRASH in faults_of(s) and len(s.topology.vertices) > 3)


def breaks_with_a_crash_and_three_rows(scenario: Scenario) -> tuple[Violation, ...]:
    wrong = FaultKind.CRASH in faults_of(scenario) and number_of_rows(scenario) >= 3
    return (Violation("output", f"sink-{scenario.seed} lacks {number_of_rows(scenario)} of 7 rows"),) if wrong else ()


def test_only_the_necessary_parts_remain() -> None:
    shrunk = shrink(large_scenario(), violations_of=breaks_with_a_crash_and_three_rows, runs=10_000)

    assert shrunk is not None
    assert shrunk.is_smallest
    scenario = shrunk.scenario
    assert (len(scenario.jobs), faults_of(scenario), number_of_rows(scenario)) == (1, [FaultKind.CRASH], 3)
    assert (len(scenario.topology.vertices), scenario.topology.parallelism, scenario.task_managers) == (2, 1, 1)


def test_a_scenario_without_a_violation_is_not_shrunk() -> None:
    assert shrink(large_scenario(), violations_of=lambda _: ()) is None


def test_a_scenario_that_violates_another_law_is_rejected() -> None:
    def wrong(scenario: Scenario) -> tuple[Violation, ...]:
        is_whole = len(scenario.jobs) == 3
        return (Violation("output", "sink-0 lacks rows" if is_whole else "sink-0 has rows too many"),)

    shrunk = shrink(large_scenario(), violations_of=wrong, runs=50)

    assert shrunk is not None
    assert len(shrunk.scenario.jobs) == 3


def test_shrinking_ends_when_its_number_of_runs_is_exhausted() -> None:
    shrunk = shrink(large_scenario(), violations_of=breaks_with_a_crash_and_three_rows, runs=5)

    assert shrunk is not None
    assert (shrunk.runs, shrunk.is_smallest) == (5, False)


def test_an_interrupt_ends_the_search_with_the_best_scenario() -> None:
    runs = 0

    def impatient(scenario: Scenario) -> tuple[Violation, ...]:
        nonlocal runs
        runs += 1
        if runs == 4:
            raise KeyboardInterrupt
        return breaks_with_a_crash_and_three_rows(scenario)

    shrunk = shrink(large_scenario(), violations_of=impatient)

    assert shrunk is not None
    assert not shrunk.is_smallest
    assert breaks_with_a_crash_and_three_rows(shrunk.scenario) == (shrunk.violation,)


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("sink-0 lacks 3 of 18 rows", "# lacks # of"),
        ("/user/task-1 <- StageResult: checkpoint 7 is published, and", "checkpoint # is published,"),
    ],
)
def test_the_law_of_a_violation_does_not_depend_on_the_actor(text: str, law: str) -> None:
    assert law_of(Violation("monitor", text)) == ("monitor", law)


@pytest.mark.parametrize("seed", range(20))
def test_every_shrunk_job_can_run(seed: int) -> None:
    scenario = draw_scenario(seed, SimulationSettings())
    plan = scenario.jobs[0]

    for smaller in smaller_topologies(scenario.topology):
        check_job_graph(job_graph(JobId("job"), smaller, plan.checkpointing, scenario.restart_strategy))
        assert smaller.expected_output().keys() == set(smaller.program.sinks)
        assert smaller != scenario.topology


@pytest.mark.parametrize("seed", range(20))
def test_a_scenario_survives_serialization(seed: int) -> None:
    scenario = draw_scenario(seed, SimulationSettings())

    assert from_json(to_json(scenario)) == scenario


@pytest.mark.parametrize("text", ["", "[", "7", '{"is": "Fault", "kind": 3, "nothing": 1}', '{"is": "Popen"}'])
def test_an_invalid_scenario_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError, match="scenario"):
        from_json(text)


@pytest.mark.slow
@pytest.mark.long  # The command writes such a test in each run.
def test_a_planted_bug_becomes_a_test_that_fails_while_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = draw_scenario(NARROW_SEED, DOUBLED)
    with monkeypatch.context() as patch:
        COUNTS_TWICE.plant(patch)
        shrunk = shrink(origin, runs=60)
        assert shrunk is not None
        path = write_test(tmp_path, origin, shrunk)
        emitted = runpy.run_path(str(path))["test_no_law_of_checkpoints_is_broken"]

        with pytest.raises(AssertionError):
            emitted()

    emitted()
    assert path.name == f"test_checkpoints_seed_{NARROW_SEED}.py"
    assert len(shrunk.scenario.jobs) == 1
    assert number_of_rows(shrunk.scenario) < number_of_rows(origin)


@pytest.mark.slow
def test_the_trace_of_a_simulation_contains_its_scenario(tmp_path: Path) -> None:
    scenario = draw_scenario(0, SimulationSettings(faults=frozenset()))
    fault = Fault(kind=FaultKind.SLOW, before=AcknowledgeCheckpoint)
    scenario = replace(scenario, jobs=(replace(scenario.jobs[0], faults=(fault,)),))

    run(scenario, SimulationSettings(trace_path=tmp_path / "run.trace"))

    assert scenario_of(tmp_path / "run.trace") == scenario


@pytest.mark.slow
def test_the_command_prints_the_shrunk_scenario_and_writes_the_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    COUNTS_TWICE.plant(monkeypatch)
    words = ["shrink", str(NARROW_SEED), "--faults", "duplicate", "--runs", "12", "--emit-test", str(tmp_path)]

    code = main(words)

    assert code == 1
    output = capsys.readouterr().out
    assert output.startswith(f"seed {NARROW_SEED}: turn ")
    assert "completes without the acknowledgement of" in output
    assert "12 runs; the limit of --runs was reached: more may be removable" in output
    assert "python -m pytest" in output
    assert [path.name for path in tmp_path.iterdir()] == [f"test_checkpoints_seed_{NARROW_SEED}.py"]


@pytest.mark.slow
def test_the_command_reports_a_scenario_without_violation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shrink", "0", "--faults", "none"]) == 0
    assert capsys.readouterr().out == "seed 0: no failure, so there is nothing to reduce\n"
    assert violations_of(draw_scenario(0, SimulationSettings(faults=frozenset()))) == ()


def test_damage_in_a_trace_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (HISTORIES / "simulated.trace").read_bytes()
    (tmp_path / "cut.trace").write_bytes(whole[:5_000])

    assert main(["shrink", str(tmp_path / "cut.trace")]) == 2
    assert "contains no scenario up to byte " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere.trace", "nowhere.trace is not a seed, which is a whole number, and there is no such file"),
        ("folder", "folder is a folder; a trace is a file"),
        ("text.trace", "is not a trace"),
    ],
)
def test_the_command_reports_the_error_of_a_file(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.trace").write_text("no trace", encoding="utf-8")

    assert main(["shrink", name]) == 2
    assert said in capsys.readouterr().err


def test_the_command_checks_that_the_test_is_writable_before_the_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken"
    taken.touch()

    assert main(["shrink", str(NARROW_SEED), "--emit-test", str(taken)]) == 2

    output = capsys.readouterr()
    assert (output.out, output.err) == (
        "",
        f"flykka shrink: {taken} cannot be written: a file with that name exists\n",
    )
