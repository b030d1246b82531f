"""Forks of recorded jobs: without a fault they end as recorded; with a fault the actors handle it as in a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from flykka.messages.attempt.answers import StageResult
from flykka.messages.attempt.commands import ReadSplits, SnapshotState
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint
from flykka.messages.control.job import JobStatus, SubmitJob
from flykka.messages.tasks.task import ReportTaskMetrics, TaskIOMetrics
from flykka.messages.wire.ids import ExecutionAttemptId, JobId
from flykka.replay.job_fork import JobFork, JobSession
from flykka.replay.outcomes import JobOutcome, RunOutcome
from flykka.replay.replayer import Replayer
from flykka.runtime.errors import ForkError, ReplaySessionError
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import Record, Turn
from flykka.runtime.trace.text import unwrapped
from flykka.simulation.settings import SimulationSettings
from flykka.simulation.simulation import simulate
from flykka.traces.trace import Trace
from tests.histories import HISTORIES

pytestmark = pytest.mark.slow

SOME = ("killed-task-manager", "rescaled")
KILLED = HISTORIES / "killed-task-manager.trace"
DECLINED = HISTORIES / "declined-and-failed.trace"


def session_of(path: Path) -> JobSession:
    return Replayer().session(path)


def the_job(outcome: RunOutcome) -> JobOutcome:
    (job,) = outcome.jobs.values()
    return job


def summary(outcome: RunOutcome) -> list[tuple[object, ...]]:
    """Return the outcomes of the jobs without times, which depend on the recording machine."""
    return [
        (job.job_id, job.status, list(job.completed), job.aborted, job.restarts, list(job.failures))
        for job in outcome.jobs.values()
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if path.stem in SOME else pytest.mark.long)
        for path in sorted(HISTORIES.glob("*.trace"))
    ],
    ids=lambda path: path.stem,
)
def test_a_fork_without_a_fault_ends_as_the_recorded_run(path: Path) -> None:
    session = session_of(path)
    turns = TraceReader.open(path).turns
    session.at(turns[len(turns) // 3].sequence)

    fork = session.fork()
    run = fork.run()

    assert (run.ended, run.silent) == ("all jobs have ended", {})
    assert summary(fork.outcome) == summary(fork.recorded)
    assert fork.outcome.ends_as(fork.recorded)


def test_a_lost_task_manager_is_replaced_and_the_job_continues() -> None:
    session = session_of(KILLED)
    session.run_until(AcknowledgeCheckpoint)
    fork = session.fork()

    fork.crash("task-manager-1")
    fork.run()

    job = the_job(fork.outcome)
    assert job.status is JobStatus.FINISHED
    assert "task-manager-1" in job.lost_task_managers
    assert "task-manager-1" not in the_job(fork.recorded).lost_task_managers


def test_a_failed_stage_in_a_fork_restarts_the_job() -> None:
    session = session_of(DECLINED)
    session.run_until(ReadSplits)
    fork = session.fork()

    fork.fail_stage()
    fork.run()

    job = the_job(fork.outcome)
    assert "InjectedFailure: a stage fails in this fork" in job.failures
    assert (job.restarts > 0) is (job.status is JobStatus.FINISHED)


def test_a_stage_of_the_attempt_named_by_a_message_can_fail() -> None:
    session = session_of(DECLINED)
    session.run_until("JobMaster <- AcknowledgeCheckpoint")
    fork = session.fork()

    fork.fail_stage()
    fork.run()

    assert "InjectedFailure: a stage fails in this fork" in the_job(fork.outcome).failures


@pytest.mark.slow
def test_output_staged_in_a_fork_is_published_with_its_checkpoints() -> None:
    session = session_of(HISTORIES / "flights-with-a-kill.trace")
    session.run_until(ReadSplits)
    fork = session.fork()
    reported: dict[ExecutionAttemptId, TaskIOMetrics] = {}

    def observe(record: Record) -> None:
        match record:
            case Turn() if isinstance(message := unwrapped(record.message), ReportTaskMetrics):
                reported[message.attempt] = message.metrics

    fork.run(observer=observe)

    assert the_job(fork.outcome).status is JobStatus.FINISHED
    assert sum(metrics.rows_published for metrics in reported.values()) > 0
    assert all(metrics.rows_staged >= 0 for metrics in reported.values())


def test_a_stage_cannot_fail_in_a_turn_without_a_task() -> None:
    session = session_of(KILLED)
    session.run_until("JobManager <- SubmitJob")

    with pytest.raises(ForkError, match="its message is not for a Task, and names no living attempt"):
        session.fork().fail_stage()


def test_a_delayed_acknowledgement_delays_its_checkpoint() -> None:
    session = session_of(KILLED)
    session.run_until("CheckpointCoordinator <- AcknowledgeCheckpoint(checkpoint_id=2)")
    fork = session.fork()

    fork.delay("5s")
    fork.run()

    job = the_job(fork.outcome)
    assert job.status is JobStatus.FINISHED
    assert 2 in job.completed
    assert job.duration_ms >= 5_000 > the_job(fork.recorded).duration_ms


def test_a_duplicate_acknowledgement_counts_once() -> None:
    session = session_of(KILLED)
    session.run_until("CheckpointCoordinator <- AcknowledgeCheckpoint(checkpoint_id=2)")
    fork = session.fork()

    fork.duplicate()
    fork.run()

    assert summary(fork.outcome) == summary(fork.recorded)


@pytest.mark.slow
def test_a_lost_acknowledgement_makes_the_checkpoint_expire() -> None:
    session = session_of(KILLED)
    session.run_until("CheckpointCoordinator <- AcknowledgeCheckpoint(checkpoint_id=2)")
    fork = session.fork()

    fork.drop()
    fork.run()

    job = the_job(fork.outcome)
    assert job.aborted[2] == "EXPIRED"
    assert job.status is JobStatus.FINISHED


@pytest.mark.slow
@pytest.mark.long
def test_messages_in_transit_to_a_bridge_precede_later_ones() -> None:
    session = session_of(HISTORIES / "crowded.trace")
    session.run_until("Task <- TriggerCheckpoint(checkpoint_id=4)")
    fork = session.fork()

    fork.drop()
    fork.run()

    assert fork.outcome.failed_turns == 0
    assert fork.outcome.ends_as(fork.recorded)


def test_a_bridge_replies_by_the_protocol_after_the_end_of_the_record() -> None:
    session = session_of(KILLED)
    session.run_until(SnapshotState)
    fork = session.fork()

    fork.duplicate()
    run = fork.run()

    assert run.silent == {}


def test_a_stage_takes_as_long_as_a_recorded_stage_of_its_kind() -> None:
    session = session_of(HISTORIES / "unaligned.trace")
    session.run_until("Task <- StageResult")
    fork = session.fork()

    fork.crash("task-manager-1")
    fork.run()

    job = the_job(fork.outcome)
    assert job.status is JobStatus.FINISHED
    assert job.duration_ms > 1_000


def test_a_fork_does_not_touch_the_storage_of_the_recorded_run() -> None:
    session = session_of(KILLED)
    step = session.run_until("JobManager <- SubmitJob")
    assert step is not None
    assert isinstance(step.turn.message, SubmitJob)
    assert step.turn.message.job_graph.checkpointing.directory.startswith("memory://")
    before = set(MemoryFileSystem.store)

    session.fork().run()

    assert set(MemoryFileSystem.store) == before


@pytest.mark.parametrize("part", [0.4, *(pytest.param(part, marks=pytest.mark.long) for part in (0.6, 0.8))])
def test_a_job_continues_after_the_end_of_its_recording(part: float, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole.trace", tmp_path / "broken.trace"
    assert simulate(2, SimulationSettings(faults=frozenset(), trace_path=whole)).violations == ()
    recorded = whole.read_bytes()
    broken.write_bytes(recorded[: int(len(recorded) * part)])
    session = session_of(broken)
    session.at(TraceReader.open(broken).turns[-1].sequence)

    fork = session.fork()
    run = fork.run()

    assert run.silent == {}
    assert the_job(fork.outcome).status is JobStatus.FINISHED


@pytest.mark.long
def test_a_failed_stage_in_a_simulated_runs_fork_restarts_the_job(tmp_path: Path) -> None:
    path = tmp_path / "job.trace"
    assert simulate(2, SimulationSettings(faults=frozenset(), trace_path=path)).violations == ()
    session = session_of(path)
    session.run_until(ReadSplits)
    fork = session.fork()

    fork.fail_stage()
    fork.run()

    assert "InjectedFailure: a stage fails in this fork" in the_job(fork.outcome).failures


def test_forks_of_one_turn_are_equal() -> None:
    session = session_of(KILLED)
    session.run_until(StageResult)

    runs: list[tuple[JobFork, object]] = []
    for _ in range(2):
        fork = session.fork()
        fork.crash("task-manager-1")
        runs.append((fork, fork.run()))

    assert runs[0][1] == runs[1][1]
    assert (runs[0][0].outcome, runs[0][0].outcome.jobs) == (runs[1][0].outcome, runs[1][0].outcome.jobs)


def test_an_outcome_includes_refused_jobs() -> None:
    outcome = RunOutcome.from_records(TraceReader.open(HISTORIES / "regions.trace").records())

    refused = outcome.jobs[JobId("refused")]

    assert (refused.status, refused.has_ended) == (JobStatus.FAILED, True)
    assert "LAZY_FROM_SOURCES" in "".join(refused.failures)


def test_two_outcomes_are_equal_if_each_job_has_the_same_end() -> None:
    killed = RunOutcome.from_records(TraceReader.open(KILLED).records())
    declined = RunOutcome.from_records(TraceReader.open(DECLINED).records())

    assert killed.ends_as(declined)
    assert not killed.ends_as(RunOutcome())


def test_a_trace_opened_at_a_turn_has_its_actor_states() -> None:
    step = session_of(KILLED).run_until("CheckpointCoordinator <- AcknowledgeCheckpoint")
    assert step is not None

    session = Trace.open(KILLED).at(step.turn.sequence)

    assert session.state("job-manager/job-job/checkpoint-coordinator") == step.after
    with pytest.raises(ReplaySessionError, match="has no turn 99999"):
        Trace.open(KILLED).at(99_999)
