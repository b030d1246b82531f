"""`flykka trace check` reports the laws that a recorded run has violated, and accepts a correct run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flykka.actors.machines.checkpoint.pending import PendingCheckpoint
from flykka.cli.main import main
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.record.flight_recorder import FlightRecorder
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.actors.whole_cluster import WholeCluster

pytestmark = pytest.mark.slow


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return record_cluster(tmp_path)


def record_cluster(folder: Path) -> Path:
    with SeededSystem(0, recorder=TraceRecorder(folder / "run.trace")) as system:
        stage = WholeCluster(system, folder)
        stage.submit()
        stage.run(seconds=3)
    return folder / "run.trace"


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The trace of a run in which a single acknowledgement completes a checkpoint."""
    acknowledge = PendingCheckpoint.acknowledge

    def for_all(self: PendingCheckpoint, attempt: object, state: object) -> object:
        while self.awaited - {attempt}:
            acknowledge(self, min(self.awaited - {attempt}), state)  # type: ignore[arg-type]
        return acknowledge(self, attempt, state)  # type: ignore[arg-type]

    monkeypatch.setattr(PendingCheckpoint, "acknowledge", for_all)
    return record_cluster(tmp_path)


def test_a_correct_run_passes(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "check", str(trace)]) == 0
    assert capsys.readouterr().out.endswith("records: no violations\n")


def test_a_violation_is_printed_with_its_turns(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "check", str(broken)]) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("turn ")
    assert "checkpoint 1 completes without the acknowledgement of" in first
    assert "violations" in last


def test_violations_are_available_as_json(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "check", str(broken), "--json"]) == 1
    output = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"monitor", "turn", "text"} == output[0].keys()
    assert output[0]["monitor"] == "checkpoints"


def test_progress_of_a_reading_job_is_recognised(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "check", str(trace), "--progress-within", "60"]) == 0
    assert "no violations" in capsys.readouterr().out


def test_a_flight_record_is_not_checked_against_earlier_events(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = FlightRecorder(turns=300)
    with SeededSystem(0, recorder=recorder) as system:
        stage = WholeCluster(system, tmp_path)
        stage.submit()
        stage.run(seconds=3)
        recorder.dump(tmp_path / "ring.trace")

    assert main(["trace", "check", str(tmp_path / "ring.trace")]) == 0
    assert "# the part of the run before the trace is unknown\n" in capsys.readouterr().out


def test_a_truncated_trace_is_checked_to_its_end(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace.write_bytes(trace.read_bytes()[:-10])

    assert main(["trace", "check", str(trace)]) == 0
    output = capsys.readouterr().out
    assert "no violations" in output
    assert "# the trace ends at byte" in output


@pytest.mark.parametrize("name", ["nowhere.trace", "text.trace"])
def test_a_file_that_is_not_a_trace_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.trace").write_text("no trace", encoding="utf-8")

    assert main(["trace", "check", str(tmp_path / name)]) == 2
    assert capsys.readouterr().err.startswith("flykka trace check: ")
