"""A recorded run is explained like a live run: at its end, after a turn, and for one job of several."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.cli.main import main
from flykka.errors import TraceSelectionError
from flykka.messages.attempt.answers import StageResult
from flykka.messages.control.job import JobStatus
from flykka.runtime.errors import ReplaySessionError
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.traces.diagnosis import diagnose_recorded
from tests.actors.slow_cluster import SlowNames
from tests.actors.whole_cluster import WholeCluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> TraceReader:
    """The trace of a job in the slow cluster, which finishes within thirty seconds."""
    folder = tmp_path_factory.mktemp("recorded")
    with SeededSystem(3, recorder=TraceRecorder(folder / "run.trace")) as system:
        stage = WholeCluster(system, folder / "checkpoints", SlowNames())
        stage.submit()
        stage.run(seconds=30)
        assert stage.statuses()[-1] is JobStatus.FINISHED
    return TraceReader.open(folder / "run.trace")


def a_turn_of_a_stage(trace: TraceReader) -> int:
    return [turn.sequence for turn in trace.turns if isinstance(turn.message, StageResult)][9]


def test_an_ended_run_is_reported_as_ended(trace: TraceReader) -> None:
    assert diagnose_recorded(trace).answer == "job 'job' has FINISHED: it waits for nothing"


def test_the_explanation_after_a_turn_names_what_the_job_waits_for(trace: TraceReader) -> None:
    why = diagnose_recorded(trace, a_turn_of_a_stage(trace))

    assert "source" in why.answer or "sink" in why.answer
    assert [each.name for each in why.attempts] == ["source (1/2)", "source (2/2)", "sink (1/2)", "sink (2/2)"]


def test_the_same_turn_has_the_same_explanation(trace: TraceReader) -> None:
    turn = a_turn_of_a_stage(trace)

    assert str(diagnose_recorded(trace, turn)) == str(diagnose_recorded(trace, turn))


def test_a_missing_turn_is_refused(trace: TraceReader) -> None:
    with pytest.raises(ReplaySessionError, match="has no turn 9999999"):
        diagnose_recorded(trace, 9_999_999)


def test_a_missing_job_is_refused_with_the_existing_ones(trace: TraceReader) -> None:
    with pytest.raises(TraceSelectionError, match=r"there is no job 'prices'; name one of: 'job' job"):
        diagnose_recorded(trace, job="prices")


def test_the_command_prints_the_explanation(trace: TraceReader, capsys: pytest.CaptureFixture[str]) -> None:
    turn = a_turn_of_a_stage(trace)

    code = main(["why", "--trace", str(trace.path), "--turn", str(turn)])

    assert (code, capsys.readouterr().out) == (0, f"{diagnose_recorded(trace, turn)}\n")


def test_the_command_refuses_a_turn_without_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["why", "--turn", "3"])

    assert refused.value.code == 2
    assert "--turn N needs --trace FILE" in capsys.readouterr().err


def test_the_command_reports_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--trace", str(tmp_path / "none.trace")]) == 2
    assert "none.trace" in capsys.readouterr().err
