"""The exception history of a job: root causes, concurrent failures, and the reaction to each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.graph.events import Deploy, Effect, ExecutionMoved, JobStatusMoved, RestartScheduled
from flykka.actors.machines.graph.exception_history import MAX_CONCURRENT, MAX_ENTRIES, ExceptionHistory
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.exception_history import FailureLabel, FailureOutcome, RootExceptionHistoryEntry
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, TaskManagerId
from flykka.messages.wire.ref import Ref
from tests.actors.machines.scheduling.descriptors import descriptor

BUG = SerializedThrowable(type_name="ValueError", message="operator 'taxed': no price may be 26")
WORSE = SerializedThrowable(type_name="ValueError", message="operator 'taxed': no price may be -1")
LOST = SerializedThrowable(type_name="SlotLostError", message="task-manager-1 has ended")
SOURCE = "Source: flights (1/1)"


def execution_failed(task: str = SOURCE, cause: SerializedThrowable = BUG) -> ExecutionMoved:
    return ExecutionMoved(
        attempt=ExecutionAttemptId(f"job_{task}_0_0"),
        task_name=task,
        previous=ExecutionState.RUNNING,
        state=ExecutionState.FAILED,
        task_manager_id=TaskManagerId("task-manager-1"),
        failure=cause,
    )


def failing(cause: SerializedThrowable = BUG) -> JobStatusMoved:
    return JobStatusMoved(status=JobStatus.FAILING, cause=cause)


def job_ended(status: JobStatus, cause: SerializedThrowable | None = None) -> JobStatusMoved:
    return JobStatusMoved(status=status, cause=cause)


def restart(version: int = 2, delay_ms: int = 500, tasks: tuple[str, ...] = ()) -> RestartScheduled:
    return RestartScheduled(delay_ms=delay_ms, version=version, tasks=tasks)


def deployed(checkpoint: int | None = None) -> Deploy:
    made = replace(descriptor("job_v_0_1"), restored_checkpoint_id=checkpoint)
    return Deploy(descriptor=made, task_manager=Ref("/user/task-manager-1", 1))


def history_of(*effects: Effect, every_ms: int = 10) -> ExceptionHistory:
    history = ExceptionHistory()
    for number, effect in enumerate(effects, 1):
        history.on_effect(effect, number * every_ms)
        history.check()
    return history


def only(history: ExceptionHistory) -> RootExceptionHistoryEntry:
    (entry,) = history.entries
    return entry


def test_a_failed_task_is_reported_once_while_its_job_fails() -> None:
    entry = only(history_of(execution_failed(), failing()))

    assert (entry.number, entry.root.cause, entry.root.task_name) == (1, BUG, SOURCE)
    assert (entry.root.timestamp_ms, entry.root.task_manager) == (10, "task-manager-1")
    assert entry.outcome is FailureOutcome.UNDECIDED


def test_a_global_failure_has_no_task() -> None:
    entry = only(history_of(failing(LOST)))

    assert (entry.root.task_name, entry.root.cause) == (None, LOST)


def test_failures_before_the_restart_decision_are_concurrent() -> None:
    entry = only(history_of(execution_failed("map (1/2)", LOST), failing(LOST), execution_failed("map (2/2)", LOST)))

    assert [each.task_name for each in entry.concurrent] == ["map (2/2)"]


def test_failures_beyond_the_limit_of_concurrent_ones_are_only_counted() -> None:
    entry = only(history_of(*(execution_failed(f"map ({number}/1000)", LOST) for number in range(1, 1001))))

    assert (len(entry.concurrent), entry.concurrent_suppressed) == (MAX_CONCURRENT, 999 - MAX_CONCURRENT)


@pytest.mark.parametrize("checkpoint", [None, 7])
def test_a_restart_reports_its_delay_time_and_checkpoint(checkpoint: int | None) -> None:
    waiting = only(history_of(execution_failed(), failing(), restart(delay_ms=500)))
    entry = only(history_of(execution_failed(), failing(), restart(delay_ms=500), deployed(checkpoint)))

    assert (waiting.outcome, waiting.delay_ms) == (FailureOutcome.RESTARTING, 500)
    assert (entry.outcome, entry.restarted_ms) == (FailureOutcome.RESTARTED, 40)
    assert entry.restored_checkpoint == checkpoint


def test_a_region_restart_ends_with_a_deployment_in_that_region() -> None:
    other = history_of(execution_failed("map (1/2)"), restart(tasks=("map (1/2)",)), deployed(3))
    own = history_of(execution_failed(), restart(tasks=(SOURCE,)), deployed(3))

    assert only(other).outcome is FailureOutcome.RESTARTING
    assert (only(own).outcome, only(own).restarted_tasks) == (FailureOutcome.RESTARTED, (SOURCE,))


def test_a_restart_without_a_failed_task_reports_its_own_cause() -> None:
    entry = only(history_of(RestartScheduled(delay_ms=0, version=2, tasks=(SOURCE,), cause=LOST), deployed(3)))

    assert (entry.root.cause, entry.root.task_name, entry.outcome) == (LOST, None, FailureOutcome.RESTARTED)


def test_a_failure_after_a_restart_decision_is_a_new_root_failure() -> None:
    history = history_of(execution_failed(), failing(), restart(), execution_failed("map (1/2)", LOST))

    assert [entry.root.cause for entry in history.entries] == [BUG, LOST]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(JobStatus.FAILED, FailureOutcome.FAILED), (JobStatus.CANCELED, FailureOutcome.CANCELED)],
)
def test_unresolved_failures_get_the_final_job_status_as_outcome(status: JobStatus, outcome: FailureOutcome) -> None:
    first, second = (execution_failed(), failing()), (execution_failed(cause=WORSE), failing(WORSE))
    mended_first = history_of(*first, restart(), deployed(), *second, job_ended(status))

    assert [entry.outcome for entry in mended_first.entries] == [FailureOutcome.RESTARTED, outcome]


def test_the_last_failure_contains_the_reason_for_no_restart() -> None:
    why = "restarts are suppressed: no restart can fix ValueError"
    regions = execution_failed(cause=LOST), restart(tasks=(SOURCE,)), execution_failed(), failing()

    waiting, last = history_of(*regions, JobStatusMoved(status=JobStatus.FAILED, cause=BUG, why=why)).entries

    assert (waiting.root.cause, waiting.outcome, waiting.why_not_restarted) == (LOST, FailureOutcome.FAILED, None)
    assert (last.root.cause, last.outcome, last.why_not_restarted) == (BUG, FailureOutcome.FAILED, why)


def test_the_last_failures_are_retained_and_earlier_ones_counted() -> None:
    causes = [replace(BUG, message=f"no price may be {price}") for price in range(100)]
    history = history_of(
        *[effect for each in causes for effect in (execution_failed(cause=each), failing(each), restart(), deployed())]
    )

    assert [entry.number for entry in history.entries] == [*range(101 - MAX_ENTRIES, 101)]


def test_a_repeated_failure_is_counted_with_its_last_outcome() -> None:
    again = [
        effect for _ in range(51) for effect in (execution_failed(), failing(), restart(delay_ms=700), deployed(3))
    ]

    entry = only(history_of(execution_failed(), failing(), restart(), deployed(), *again))

    assert (entry.times, entry.root.timestamp_ms, entry.last_timestamp_ms) == (52, 10, 2_050)
    assert (entry.outcome, entry.delay_ms, entry.restored_checkpoint) == (FailureOutcome.RESTARTED, 700, 3)


def test_the_same_failure_after_a_checkpoint_is_a_new_entry() -> None:
    history = history_of(execution_failed(), failing(), restart(), deployed())

    history.checkpoint_completed()
    history.on_effect(execution_failed(), 100)

    assert [(entry.number, entry.times) for entry in history.entries] == [(1, 1), (2, 1)]


def test_every_loss_of_a_task_manager_is_reported() -> None:
    lost = (execution_failed(cause=LOST), failing(LOST), restart(), deployed())

    assert [entry.times for entry in history_of(*lost, *lost).entries] == [1, 1]


EFFECTS = st.sampled_from(
    [
        execution_failed(),
        execution_failed("map (1/2)", LOST),
        failing(),
        failing(LOST),
        restart(),
        restart(tasks=(SOURCE,)),
        deployed(),
    ]
    + [
        job_ended(status, LOST)
        for status in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.SUSPENDED, JobStatus.RUNNING)
    ]
)


@given(st.lists(EFFECTS, max_size=60))
def test_a_listener_to_all_changes_can_reconstruct_the_history(effects: list[Effect]) -> None:
    history, heard = ExceptionHistory(), dict[int, RootExceptionHistoryEntry]()
    for number, effect in enumerate(effects):
        heard |= {entry.number: entry for entry in history.on_effect(effect, number)}
        history.check()

    assert history.entries == tuple(heard[entry.number] for entry in history.entries)
    assert len(history.entries) == min(len(heard), MAX_ENTRIES)


def test_a_repeated_failure_is_not_reported_as_new() -> None:
    history = history_of(
        execution_failed(), failing(), execution_failed("map (1/2)", LOST), restart(), deployed(), execution_failed()
    )

    new = [(each.number, each.position, each.entry.cause) for each in history.take_new()]

    assert new == [(1, 0, BUG), (1, 1, LOST)]
    assert history.take_new() == []


def test_labels_are_added_to_their_failure() -> None:
    history = history_of(execution_failed(), failing(), execution_failed("map (1/2)", LOST))
    owner, kind = FailureLabel(key="owner", value="a"), FailureLabel(key="kind", value="lost")

    history.label(1, 0, (owner,))
    entry = history.label(1, 1, (kind,))

    assert entry == only(history)
    assert (entry.root.failure_labels, entry.concurrent[0].failure_labels) == ((owner,), (kind,))


def test_invalid_or_late_labels_are_ignored() -> None:
    history = history_of(execution_failed())

    assert history.label(1, 0, ()) is None
    assert history.label(7, 0, (FailureLabel(key="owner", value="a"),)) is None
