"""`flykka whatif`: a recorded run and its fork side by side, and exit codes for the result of the comparison."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from flykka.actors.task.empty_engine import EmptyEngine
from flykka.cli.main import main
from flykka.messages.attempt.answers import StageResult
from flykka.messages.attempt.commands import ReadSplits
from flykka.replay.replayer import Replayer
from flykka.runtime.trace.file.reader import TraceReader
from tests.histories import HISTORIES
from tests.runtime.replay import couriers

pytestmark = pytest.mark.slow

KILLED = HISTORIES / "killed-task-manager.trace"

WhatIf = Callable[..., tuple[int, str, str]]


@pytest.fixture
def whatif(capfd: pytest.CaptureFixture[str]) -> WhatIf:
    """A function that runs `flykka whatif ...`, and returns the exit code and the output."""

    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            code = main(["whatif", *map(str, arguments)])
        except SystemExit as usage:
            code = int(usage.code or 0)
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.fixture(scope="module")
def acknowledgement() -> int:
    """Return the turn in which the coordinator handles the first acknowledgement of checkpoint 2."""
    return turn_of("CheckpointCoordinator <- AcknowledgeCheckpoint(checkpoint_id=2)")


def turn_of(place: str) -> int:
    step = Replayer().session(KILLED).run_until(place)
    assert step is not None
    return step.turn.sequence


def test_both_outcomes_are_printed_side_by_side(whatif: WhatIf, acknowledgement: int) -> None:
    code, out, err = whatif(KILLED, "--at", acknowledgement, "--delay", "5s")

    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith(f"turn {acknowledgement}  ")
    assert lines[1] == "what if its message arrives 5s later?"
    assert lines[3].split() == ["recorded", "fork"]
    assert lines[4].split() == ["job", "job", "FINISHED", "FINISHED"]
    durations = next(line.split() for line in lines if line.startswith("  duration"))
    assert float(durations[3]) > 5 > float(durations[1])
    assert lines[-1].endswith("of virtual time: all jobs have ended")


def test_the_comparison_is_available_as_json(whatif: WhatIf, acknowledgement: int) -> None:
    code, out, _ = whatif(KILLED, "--at", acknowledgement, "--crash", "task-manager-1", "--json")

    document = json.loads(out)

    assert code == 0
    assert (document["at"], document["fault"]) == (acknowledgement, "task-manager-1 dies before it")
    assert document["ends_as_recorded"] is True
    assert "task-manager-1" in document["fork"]["jobs"]["job"]["lost_task_managers"]
    assert "task-manager-1" not in document["recorded"]["jobs"]["job"]["lost_task_managers"]
    assert document["unanswered"] == {}


def test_a_job_with_a_different_outcome_sets_the_exit_code(whatif: WhatIf) -> None:
    code, out, _ = whatif(KILLED, "--at", turn_of("JobManager <- SubmitJob"), "--drop")

    assert code == 1
    assert ["job", "job", "FINISHED", "-"] in [line.split() for line in out.splitlines()]


def test_a_failure_in_a_fork_is_printed_with_its_reason(whatif: WhatIf, monkeypatch: pytest.MonkeyPatch) -> None:
    read, failed_once = EmptyEngine.read_splits, Event()

    def read_splits(engine: EmptyEngine, command: ReadSplits) -> StageResult:
        # The failure occurs only once; otherwise the job would restart for ever and time would not pass.
        if failed_once.is_set():
            return read(engine, command)
        failed_once.set()
        raise AssertionError(f"stage {command.stage} cannot be read")

    monkeypatch.setattr(EmptyEngine, "read_splits", read_splits)
    _, out, _ = whatif(KILLED, "--at", turn_of("Task <- AddSplits"), "--drop", "--limit", "1min")

    failed = out.splitlines().index(next(line for line in out.splitlines() if line.startswith("  that failed")))
    assert "AssertionError: stage 0 cannot be read" in out.splitlines()[failed + 1]


@pytest.mark.parametrize("fault", [["--drop"], ["--duplicate"], ["--fail-stage"], []])
def test_every_fault_is_available_as_an_option(whatif: WhatIf, acknowledgement: int, fault: list[str]) -> None:
    code, out, err = whatif(KILLED, "--at", acknowledgement, *fault, "--limit", "1min")

    assert (code in (0, 1), err) == (True, "")
    assert "what if " in out


def test_a_run_without_jobs_is_compared(whatif: WhatIf, tmp_path: Path) -> None:
    trace = couriers.record_deliveries(tmp_path / "couriers.trace")

    code, out, _ = whatif(trace.path, "--at", 14, "--drop")

    assert code == 0
    assert "of virtual time: nothing is left to do" in out


def test_unanswered_requests_are_reported(whatif: WhatIf, tmp_path: Path) -> None:
    trace = couriers.record_deliveries(tmp_path / "couriers.trace")

    _, out, _ = whatif(trace.path, "--at", 14, "--duplicate", "--limit", "5s")

    assert "no answer was recorded for /user/depot: Parcel(number=1)" in out


def test_the_trace_of_a_fork_is_complete_and_replays(whatif: WhatIf, acknowledgement: int, tmp_path: Path) -> None:
    path = tmp_path / "fork.trace"

    whatif(KILLED, "--at", acknowledgement, "--crash", "task-manager-1", "--record", path)

    fork, recorded = TraceReader.open(path), TraceReader.open(KILLED)
    assert (fork.header.system, fork.truncated) == (recorded.header.system, None)
    before = [turn for turn in fork.turns if turn.sequence < acknowledgement]
    assert before == [turn for turn in recorded.turns if turn.sequence < acknowledgement]
    result = Replayer().replay(fork, raise_on_divergence=True)
    assert result.turns == len(fork.turns) > len(before)
    assert result.compared > result.turns / 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--at", "99999", "--drop"], "has no turn 99999: its last one is turn"),
        (["--at", "NOTHING"], "argument --at: invalid int value: 'NOTHING'"),
        (["--drop"], "the following arguments are required: --at"),
        (["--at", "20", "--crash", "cellar"], "no actor lives at /user/cellar at turn"),
        (["--at", "20", "--delay", "5x"], "argument --delay: the duration '5x' has the unknown unit 'x'"),
        (["--at", "20", "--drop", "--duplicate"], "not allowed with argument"),
    ],
)
def test_impossible_faults_are_reported(whatif: WhatIf, arguments: list[str], said: str) -> None:
    at = [str(turn_of("Task <- ChainOpened")) if word == "20" else word for word in arguments]

    code, out, err = whatif(KILLED, *at)

    assert (code, out) == (2, "")
    assert said in err


def test_a_stage_cannot_fail_in_a_turn_without_a_task(whatif: WhatIf) -> None:
    code, _, err = whatif(KILLED, "--at", turn_of("JobManager <- SubmitJob"), "--fail-stage")

    assert code == 2
    assert "its message is not for a Task, and names no living attempt" in err


def test_a_file_that_is_not_a_trace_is_reported(whatif: WhatIf, tmp_path: Path) -> None:
    code, _, err = whatif(tmp_path / "nothing.trace", "--at", 1)

    assert (code, err) == (2, f"flykka whatif: there is no file {tmp_path / 'nothing.trace'}\n")


@pytest.mark.slow
def test_on_a_terminal_the_comparison_is_a_table(acknowledgement: int) -> None:
    controller, terminal = pty.openpty()
    words = [sys.executable, "-m", "flykka", "whatif", str(KILLED), "--at", str(acknowledgement), "--duplicate"]
    words += ["--import", "tests.actors.peer"]
    command = subprocess.Popen(words, stdout=terminal, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"})
    os.close(terminal)

    shown = b""
    while True:
        try:
            read = os.read(controller, 4096)
        except OSError:
            break
        if not read:
            break
        shown += read

    assert command.wait(timeout=60) == 0
    os.close(controller)
    assert b"recorded" in shown
    assert b"FINISHED" in shown


def test_a_fork_does_not_overwrite_the_recorded_run(whatif: WhatIf, tmp_path: Path, acknowledgement: int) -> None:
    trace = tmp_path / "run.trace"
    trace.write_bytes(KILLED.read_bytes())

    code, out, err = whatif(trace, "--at", acknowledgement, "--drop", "--record", trace)

    assert (code, out) == (2, "")
    assert err == f"flykka whatif: {trace} is the trace itself: name another file with --record\n"
    assert trace.read_bytes() == KILLED.read_bytes()


def test_a_missing_module_is_reported(whatif: WhatIf) -> None:
    code, out, err = whatif(KILLED, "--at", "5", "--import", "no_such_module")

    assert (code, out) == (2, "")
    assert err == "flykka whatif: no_such_module cannot be imported: No module named 'no_such_module'\n"
