"""Results that outlive their producers are released after their last reader has finished; lost results are produced
again.
"""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.graph.events import CoordinateTasks, ExecutionMoved, GlobalFailureReported, RestartScheduled
from flykka.actors.machines.slots.slot_requests import SlotsLost
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import FailoverStrategyKind, JobGraph, ResultPartitionType, ScheduleMode
from flykka.messages.tasks.task import ExecutionState, NotifyEndOfData, ReleasePartitions
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId, ResultPartitionId, TaskManagerId
from tests.actors.machines.graph.graphs import CANCEL, failure, graph_of, vertex
from tests.actors.machines.graph.running import Running

FINISHED, FAILED, RUNNING = ExecutionState.FINISHED, ExecutionState.FAILED, ExecutionState.RUNNING
SCHEDULED, DEPLOYING = ExecutionState.SCHEDULED, ExecutionState.DEPLOYING


def made_and_read(makers: int = 1) -> JobGraph:
    """Return a job of `makers` producers and two consumers that read their results independently."""
    reader = vertex("reader", 2, reads=("maker",))
    (edge,) = reader.inputs
    blocking = replace(edge, result_partition_type=ResultPartitionType.BLOCKING)
    graph = graph_of(
        vertex("maker", makers, outputs=1), replace(reader, inputs=(blocking,)), failover=FailoverStrategyKind.REGION
    )
    return replace(graph, schedule_mode=ScheduleMode.PIPELINED_REGION)


def reading() -> Running:
    running = Running(made_and_read())
    running.deploy()
    running.report("job_maker_0_0", RUNNING)
    finish_attempt(running, "job_maker_0_0")
    running.give_slots()
    running.report_all(RUNNING)
    return running


def finish_attempt(running: Running, attempt: str) -> None:
    running.tell(NotifyEndOfData(attempt=ExecutionAttemptId(attempt)))
    running.report(attempt, FINISHED)


def attempts(running: Running) -> dict[str, int]:
    return {f"{each.vertex_id}{each.subtask}": each.number for each in running.graph.executions}


def restart(running: Running) -> None:
    running.pass_pauses()
    running.restore()


def test_a_reader_of_a_blocking_result_starts_when_it_is_finished() -> None:
    running = Running(made_and_read())
    running.deploy()
    running.report("job_maker_0_0", RUNNING)
    before = [execution.state for execution in running.graph.executions]

    finish_attempt(running, "job_maker_0_0")
    running.give_slots()

    assert before == [RUNNING, ExecutionState.CREATED, ExecutionState.CREATED]
    assert [each.state for each in running.graph.executions] == [FINISHED, *[ExecutionState.DEPLOYING] * 2]
    (coordinated,) = running.effects_of(CoordinateTasks)
    assert coordinated.tasks[0].state is FINISHED


def test_a_result_is_released_when_all_its_readers_have_finished() -> None:
    running = reading()

    finish_attempt(running, "job_reader_0_0")
    before = running.messages_of(ReleasePartitions)
    finish_attempt(running, "job_reader_1_0")

    assert before == []
    (released,) = running.messages_of(ReleasePartitions)
    assert released.partition_ids == (ResultPartitionId("job_maker_0_0:0"),)


def test_a_reader_that_fails_reads_the_same_result_again() -> None:
    running = reading()

    running.report("job_reader_0_0", FAILED)
    restart(running)

    assert attempts(running) == {"maker0": 0, "reader0": 1, "reader1": 0}
    assert running.graph.status is JobStatus.RUNNING
    assert running.messages_of(ReleasePartitions) == []


def test_a_lost_result_is_produced_again_for_all_its_readers() -> None:
    running = reading()
    gone = replace(failure("gone"), lost_partition=ResultPartitionId("job_maker_0_0:0"))

    running.report("job_reader_0_0", FAILED, gone)
    running.report("job_reader_1_0", ExecutionState.CANCELED)
    restart(running)

    assert attempts(running) == {"maker0": 1, "reader0": 1, "reader1": 1}
    assert running.graph.subtask(JobVertexId("reader"), 0).execution.state is ExecutionState.CREATED


def test_a_result_and_readers_lost_with_a_task_manager_are_one_failure() -> None:
    running = reading()
    here = [execution.attempt for execution in running.graph.executions if not execution.is_terminal]

    running.tell(SlotsLost(attempts=tuple(here), cause=failure("lost"), task_manager_id=TaskManagerId("tm-1")))
    restart(running)

    assert running.graph.number_of_restarts == 1
    assert attempts(running) == {"maker0": 1, "reader0": 1, "reader1": 1}


def test_a_waiting_reader_is_not_restarted_with_the_producer_of_its_input() -> None:
    running = Running(made_and_read())
    running.deploy()
    running.report("job_maker_0_0", RUNNING)
    before = len(running.effects)

    running.report("job_maker_0_0", FAILED)
    restart(running)
    running.give_slots()
    running.report("job_maker_0_1", RUNNING)
    finish_attempt(running, "job_maker_0_1")
    running.give_slots()

    assert attempts(running) == {"maker0": 1, "reader0": 0, "reader1": 0}
    assert [timer.tasks for timer in running.effects_of(RestartScheduled)] == [("maker (1/1)",)]
    moved = [effect for effect in running.effects[before:] if isinstance(effect, ExecutionMoved)]
    assert [each.state for each in moved if "reader" in each.task_name] == [SCHEDULED] * 2 + [DEPLOYING] * 2


def test_a_reader_keeps_waiting_if_one_of_its_results_is_lost() -> None:
    running = Running(made_and_read(makers=2))
    running.deploy()
    running.report_all(RUNNING)
    finish_attempt(running, "job_maker_0_0")
    running.tell(SlotsLost(attempts=(), cause=failure("lost"), task_manager_id=TaskManagerId("tm-1")))

    finish_attempt(running, "job_maker_1_0")
    before = [execution.state for execution in running.graph.executions]
    restart(running)
    running.give_slots()
    running.report("job_maker_0_1", RUNNING)
    finish_attempt(running, "job_maker_0_1")

    assert before == [FINISHED, FINISHED, *[ExecutionState.CREATED] * 2]
    assert attempts(running) == {"maker0": 1, "maker1": 0, "reader0": 0, "reader1": 0}
    assert {running.graph.subtask(JobVertexId("reader"), each).execution.state for each in (0, 1)} == {SCHEDULED}


def test_a_result_that_no_task_needs_may_be_lost() -> None:
    running = reading()
    finish_attempt(running, "job_reader_0_0")
    finish_attempt(running, "job_reader_1_0")

    running.tell(SlotsLost(attempts=(), cause=failure("lost"), task_manager_id=TaskManagerId("tm-1")))

    assert running.graph.number_of_restarts == 0


def test_a_cancelled_job_that_loses_a_result_does_not_run_again() -> None:
    running = reading()
    here = [execution.attempt for execution in running.graph.executions if not execution.is_terminal]
    running.tell(CANCEL)

    running.tell(SlotsLost(attempts=tuple(here), cause=failure("gave up"), task_manager_id=TaskManagerId("tm-1")))

    assert running.statuses()[-2:] == [JobStatus.CANCELLING, JobStatus.CANCELED]
    assert running.graph.number_of_restarts == 0


def test_a_result_lost_during_a_global_restart_is_not_another_failure() -> None:
    running = reading()
    running.tell(GlobalFailureReported(cause=failure()))
    running.report_all(ExecutionState.CANCELED)

    running.tell(SlotsLost(attempts=(), cause=failure("lost"), task_manager_id=TaskManagerId("tm-1")))
    before = running.graph.status
    restart(running)

    assert before is JobStatus.RESTARTING
    assert running.graph.number_of_restarts == 1
    assert attempts(running) == {"maker0": 1, "reader0": 1, "reader1": 1}
