"""`flykka simulate`: its output and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flykka.actors.machines.checkpoint.pending import PendingCheckpoint
from flykka.cli.main import main
from flykka.runtime.trace.file.reader import TraceReader
from tests.flykka.cli.shell import Shell

pytestmark = pytest.mark.slow


@pytest.fixture
def simulate(capsys: pytest.CaptureFixture[str]) -> Shell:
    """A function that runs `flykka simulate ...`, and returns the exit code and the output."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        try:
            code = main(["simulate", *map(str, arguments)])
        except SystemExit as usage:
            code = usage.code if isinstance(usage.code, int) else -1
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a bug: a checkpoint completes before its last task has acknowledged it."""
    monkeypatch.setattr(PendingCheckpoint, "is_fully_acknowledged", property(lambda _: True))


def test_the_summary_counts_checkpoints_jobs_output_and_faults(simulate: Shell) -> None:
    code, out, _ = simulate("--seeds", "3", "--from-seed", "20", "--faults", "none")

    first, *rest = out.splitlines()
    assert code == 0
    assert first.startswith("3 seeds, ")
    assert [line.split()[0] for line in rest] == ["checkpoints", "jobs", "output", "faults", "no"]


@pytest.mark.slow
def test_aborted_checkpoints_are_counted_by_reason(simulate: Shell) -> None:
    _, out, _ = simulate("--seeds", "4", "--faults", "crash,kill")

    [reasons] = [line for line in out.splitlines() if line.startswith("  aborted")]
    assert "job failover region" in reasons


def test_without_fault_options_no_fault_is_injected(simulate: Shell) -> None:
    code, out, _ = simulate("--seed", "1", "--faults", "none")

    assert code == 0
    assert "1 seed, " in out
    assert "faults       none were drawn" in out
    assert "jobs         1 FINISHED; 0 restarts" in out


def test_the_summary_is_available_as_json(simulate: Shell) -> None:
    code, out, _ = simulate("--seed", "1", "--faults", "none", "--json")

    document = json.loads(out)
    assert code == 0
    assert (document["seeds"], document["jobs"], document["faults"], document["failed"]) == (1, {"FINISHED": 1}, {}, [])
    assert document["turns"] > 100


@pytest.mark.slow
@pytest.mark.usefixtures("bug")
def test_a_failing_seed_is_named_with_the_command_to_repeat_it(simulate: Shell, tmp_path: Path) -> None:
    code, out, _ = simulate("--seeds", "2", "--faults", "none", "--record", tmp_path)

    assert code == 1
    assert "FAILED seed 0: " in out
    assert "  again: flykka simulate --seed 0 --faults none" in out
    assert f"  trace: {tmp_path / 'seed-0.trace'}" in out
    assert TraceReader.open(tmp_path / "seed-0.trace").header.system == "seed-0"


def test_a_passing_seed_leaves_no_trace(simulate: Shell, tmp_path: Path) -> None:
    code, _, _ = simulate("--seed", "1", "--record", tmp_path / "traces")

    assert code == 0
    assert list((tmp_path / "traces").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--faults", "crash,fire"), "unknown fault 'fire': use delay, loss, "),
        (("--seed", "-1"), "a seed is a whole number from 0, not '-1'"),
        (("--seeds", "0"), "'0' is not a whole number from 1"),
        (("--seed", "1", "--seeds", "2"), "not allowed with argument"),
    ],
)
def test_an_invalid_option_is_reported_with_valid_values(
    simulate: Shell, arguments: tuple[str, ...], error: str
) -> None:
    code, _, err = simulate(*arguments)

    assert code == 2
    assert error in err


def test_an_unusable_trace_folder_is_named(simulate: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    code, _, err = simulate("--seed", "1", "--record", tmp_path / "file")

    assert code == 2
    assert str(tmp_path / "file") in err


@pytest.mark.slow
def test_runs_are_equal_for_other_hash_seeds_and_numbers_of_processes(simulate: Shell) -> None:
    options = ["--seeds", "2", "--digest", "--jobs"]

    output = subprocess.run(
        [sys.executable, "-m", "flykka", "simulate", *options, "2"],
        env={**os.environ, "PYTHONHASHSEED": "2"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert output == simulate(*options, "1")[1]


@pytest.mark.slow
def test_a_simulation_needs_no_pyspark() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; from flykka import simulate; assert simulate(3).passed;"
        "from flykka.cli.main import main; sys.exit(main(['simulate', '--seed', '3']))"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_in_place_of_the_trace_folder_is_reported(simulate: Shell, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.touch()

    code, out, err = simulate("--seed", "1", "--record", taken)

    assert (code, out) == (2, "")
    assert err == f"flykka simulate: {taken} cannot be written: a file with that name exists\n"


def test_a_single_seed_excludes_the_first_seed_option(simulate: Shell) -> None:
    code, _, err = simulate("--seed", "1", "--from-seed", "4")

    assert code == 2
    assert "pass --seed N, or --from-seed N with --seeds N" in err


@pytest.mark.slow
def test_the_json_contains_digests(simulate: Shell) -> None:
    _, out, _ = simulate("--seeds", "2", "--faults", "none", "--digest", "--json")

    assert json.loads(out)["digests"].keys() == {"0", "1"}
