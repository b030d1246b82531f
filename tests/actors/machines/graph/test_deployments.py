"""Deployments in virtual time, with and without acknowledgement by the TaskManagers."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.effects import CancelTimer, Ignore, StartTimer
from flykka.actors.machines.graph.events import JobStatusMoved, RestartScheduled
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import DeploymentTimedOut
from flykka.messages.graph.job_graph import FailoverStrategyKind
from flykka.messages.tasks.task import AcknowledgeDeployments, CancelTask, ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId
from tests.actors.machines.graph.graphs import CANCEL, graph_of, vertex
from tests.actors.machines.graph.running import TWO_VERTICES, Running

SOURCES, SINK = ("job_source_0_0", "job_source_1_0"), "job_sink_0_0"
TIMEOUT_MS = 5_000
FIRST = "deployment-1"


class Deploying(Running):
    """A job whose three tasks are deployed together and not acknowledged yet."""

    def __init__(self, failover: FailoverStrategyKind = FailoverStrategyKind.FULL) -> None:
        super().__init__(replace(TWO_VERTICES, rpc_timeout_ms=TIMEOUT_MS, failover_strategy=failover))
        self.deploy()
        self.deployed_ms = self.now

    def acknowledge(self, *attempts: str) -> list[object]:
        return [*self.tell(AcknowledgeDeployments(attempts=tuple(map(ExecutionAttemptId, attempts))))]

    def look_after(self, ms: int) -> list[object]:
        self.now = self.deployed_ms + ms - 1
        return [*self.tell(DeploymentTimedOut(deployment=1))]

    def state(self, vertex_id: str, subtask: int = 0) -> ExecutionState:
        return self.graph.subtask(JobVertexId(vertex_id), subtask).execution.state


def timer(delay_ms: int = TIMEOUT_MS) -> StartTimer:
    return StartTimer(key=FIRST, delay_ms=delay_ms, message=DeploymentTimedOut(deployment=1))


def test_tasks_deployed_together_share_one_timer() -> None:
    running = Deploying()

    assert running.effects_of(StartTimer) == [timer()]


def test_the_late_timer_of_an_acknowledged_deployment_is_ignored() -> None:
    running = Deploying()

    assert running.acknowledge(*SOURCES) == []
    assert running.acknowledge(SINK) == [CancelTimer(key=FIRST)]
    assert running.look_after(TIMEOUT_MS) == [Ignore(reason="deployment 1 is acknowledged")]
    assert running.acknowledge(SINK) == []
    assert running.graph.status is JobStatus.RUNNING


def test_a_task_that_reports_running_counts_as_deployed() -> None:
    running = Deploying()
    running.acknowledge(*SOURCES)

    effects = running.report(SINK, ExecutionState.RUNNING)

    assert CancelTimer(key=FIRST) in effects


def test_an_unacknowledged_attempt_fails_and_is_cancelled_at_its_task_manager() -> None:
    running = Deploying()
    running.acknowledge(*SOURCES)

    running.look_after(2 * TIMEOUT_MS)

    assert running.state("sink") is ExecutionState.FAILED
    assert SINK in [cancel.attempt for cancel in running.messages_of(CancelTask)]
    failing = running.effects_of(JobStatusMoved)[-1]
    assert failing.status is JobStatus.FAILING
    assert failing.cause is not None
    assert failing.cause.type_name == "DeploymentTimeoutError"
    assert failing.cause.message == (
        f"sink (1/1) ({SINK}) cannot be deployed: tm-1 has not acknowledged it within the RPC timeout of 5000 ms"
    )


def test_an_unacknowledged_attempt_restarts_as_after_any_failure() -> None:
    running = Deploying()
    running.acknowledge(*SOURCES)
    running.look_after(2 * TIMEOUT_MS)

    for attempt in SOURCES:
        running.report(attempt, ExecutionState.CANCELED)
    running.pass_pauses()
    running.restore()
    running.give_slots()

    assert running.graph.status is JobStatus.RUNNING
    assert running.effects_of(StartTimer)[-1].key == "deployment-2"


def test_the_deployment_timeout_counts_from_the_last_acknowledgement() -> None:
    running = Deploying()
    running.now += 3_000
    running.acknowledge(*SOURCES)
    answered_ms = running.now - running.deployed_ms

    assert running.look_after(TIMEOUT_MS) == [timer(answered_ms)]
    assert running.state("sink") is ExecutionState.DEPLOYING
    running.look_after(TIMEOUT_MS + answered_ms)
    assert running.state("sink") is ExecutionState.FAILED


def test_all_unacknowledged_deployments_count_as_one_failure() -> None:
    running = Deploying(FailoverStrategyKind.REGION)

    running.look_after(TIMEOUT_MS)

    assert [running.state("source", number) for number in (0, 1)] == [ExecutionState.FAILED] * 2
    assert len(running.effects_of(RestartScheduled)) == 1


def test_a_cancelled_attempt_that_is_unknown_counts_as_ended() -> None:
    running = Deploying()
    running.acknowledge(*SOURCES)
    running.tell(CANCEL)
    for attempt in SOURCES:
        running.report(attempt, ExecutionState.CANCELED)

    running.look_after(2 * TIMEOUT_MS)

    assert running.graph.status is JobStatus.CANCELED


def test_attempts_in_separate_slots_have_separate_deployment_timeouts() -> None:
    running = Running(graph_of(vertex("left"), vertex("right"), failover=FailoverStrategyKind.REGION))
    running.deploy()
    keys = {each.key for each in running.effects_of(StartTimer)}

    running.report_all(ExecutionState.RUNNING)

    assert {each.key for each in running.effects_of(CancelTimer)} == keys != set()
