"""Every type of wait is described by a sentence: a table of the actors' replies and of the conclusions from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.diagnosis.job_diagnosis import JobDiagnosis, diagnose
from flykka.diagnosis.reports import ActorReports
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.checkpointing.statistics import CheckpointStatistics, CheckpointStatsStatus
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.explanation import (
    LeadershipExplained,
    ResourceWaitExplained,
    RestartExplained,
    TaskExplained,
)
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import JobVertexId, attempt_id
from tests.flykka.diagnosis.reports import (
    BUG,
    JOB,
    NOW,
    SLOTS,
    SOURCE,
    WINDOW_1,
    WINDOW_2,
    answers,
    at_stage,
    attempt,
    channel,
    details,
    full_output,
    job,
    pending,
    silent,
    spark,
    task,
)


def led(*, is_leader: bool = True, **more: object) -> LeadershipExplained:
    return replace(LeadershipExplained(now_ms=NOW, is_leader=is_leader), **more)  # type: ignore[arg-type]


def waiting_for_slots(**more: object) -> ActorReports:
    scheduled = attempt(WINDOW_2, ExecutionState.SCHEDULED, has_slot=False)
    explained = job(
        attempts=(attempt(SOURCE), attempt(WINDOW_1), scheduled),
        slots_requested=1,
        slots_requested_since_ms=NOW - 12_000,
    )
    return answers(job=explained, **more)


def idle_window(number: int, *, barrier_missing: bool = False, **more: object) -> TaskExplained:
    reads = channel(number, barrier_missing=barrier_missing)
    return task(WINDOW_1 if number == 0 else WINDOW_2, channels=(reads,), channels_open=1, **more)


FINAL = {"waits_for_final_checkpoint": True}
NO_CHECKPOINT = details(
    last_completed=None,
    checkpoints_failed=1,
    last_failed=CheckpointStatistics(
        checkpoint_id=3, status=CheckpointStatsStatus.FAILED, reason=CheckpointDeclineReason.EXPIRED
    ),
)

TABLE: list[tuple[str, ActorReports, str]] = [
    # The job has ended, has no leader, or no actor replies.
    (
        "finished",
        answers(job=None, details=details(JobStatus.FINISHED)),
        "job 'prices' has FINISHED: it waits for nothing",
    ),
    (
        "stopped",
        answers(job=None, details=details(JobStatus.FINISHED, kept_checkpoint="/c/chk-7")),
        "job 'prices' was STOPPED: it continues from its checkpoint when it is run again",
    ),
    (
        "failed",
        answers(job=None, details=details(JobStatus.FAILED, last_failure=BUG)),
        "job 'prices' has FAILED of ValueError: operator 'taxed': no price may be 26",
    ),
    (
        "canceled",
        answers(job=None, details=details(JobStatus.CANCELED, last_failure=BUG)),
        "job 'prices' is CANCELED: it waits for nothing",
    ),
    (
        "leadership",
        answers(job=None, leadership=led(is_leader=False, leader="host-2", since_ms=NOW - 9_000)),
        "job 'prices' waits for leadership for 9 s: host-2 leads",
    ),
    (
        "resources",
        answers(
            job=job(
                status=JobStatus.RESTARTING,
                waits_for_resources=ResourceWaitExplained(since_ms=NOW - 4_000, minimum=2, desired=8),
            ),
            slots=None,
        ),
        "job 'prices' waits for 4 s for 2 to 8 slots: the ResourceManager does not answer: there is none",
    ),
    (
        "job-master",
        answers(job=None, leadership=led(), unresponsive=(silent("the JobMaster"),)),
        "the JobMaster of job 'prices' is stuck: it has not answered for 2 s and is handling TriggerCheckpoint,"
        " 14 messages waiting",
    ),
    (
        "accepting",
        answers(job=None, leadership=led(job="is being accepted: its graph is being checked and stored")),
        "job 'prices' is being accepted: its graph is being checked and stored",
    ),
    # The job starts, restarts or ends.
    ("created", answers(job=job(JobStatus.CREATED)), "job 'prices' is CREATED for 40 s: it has not started"),
    (
        "restarting",
        answers(job=job(JobStatus.RESTARTING, restarts=(RestartExplained(due_ms=NOW + 4_200, cause=BUG),))),
        "job 'prices' restarts in 4.2 s, after ValueError: operator 'taxed': no price may be 26",
    ),
    (
        "region",
        answers(job=job(restarts=(RestartExplained(due_ms=NOW - 1, cause=BUG, tasks=("window (2/2)",)),))),
        "of job 'prices' a region restarts now with 1 task, after ValueError: operator 'taxed': no price may be 26",
    ),
    (
        "region-cancelling",
        answers(
            task(WINDOW_2, state=ExecutionState.CANCELING, ending=ExecutionState.CANCELED),
            job=job(
                attempts=(attempt(SOURCE), attempt(WINDOW_1), attempt(WINDOW_2, ExecutionState.CANCELING)),
                restarts=(RestartExplained(due_ms=NOW - 1, cause=BUG, tasks=("window (2/2)",)),),
            ),
            stages={WINDOW_2: spark()},
        ),
        "a region of job 'prices' is to restart after ValueError: operator 'taxed': no price may be 26, and waits for"
        " 40 s for the end of window (2/2): it is closing, and will be CANCELED: its stage 'merge' has finished 3 of 8"
        " Spark tasks",
    ),
    (
        "cancelling",
        answers(
            task(WINDOW_1, state=ExecutionState.CANCELING, ending=ExecutionState.CANCELED),
            job=job(
                JobStatus.CANCELLING,
                attempts=(
                    attempt(SOURCE, ExecutionState.CANCELED),
                    attempt(WINDOW_1, ExecutionState.CANCELING),
                    attempt(WINDOW_2, ExecutionState.CANCELING),
                ),
            ),
            stages={WINDOW_1: spark()},
        ),
        "job 'prices' is CANCELLING for 40 s: it waits for the end of window (1/2) and 1 other: it is closing, and"
        " will be CANCELED: its stage 'merge' has finished 3 of 8 Spark tasks",
    ),
    (
        "suspended",
        answers(job=job(JobStatus.SUSPENDED)),
        "job 'prices' is suspended: this driver does not lead any more",
    ),
    (
        "putting-away",
        answers(job=job(JobStatus.FINISHED, waits_for_end=NOW - 3_000)),
        "job 'prices' is FINISHED, and it is being archived for 3 s",
    ),
    (
        "finalizing",
        answers(job=job(waits_for_end=NOW - 3_000)),
        "all tasks of job 'prices' have finished, and their output is being finalized for 3 s",
    ),
    # The job's tasks are not running yet.
    (
        "slots",
        waiting_for_slots(slots=SLOTS),
        "1 task of job 'prices' waits for a slot for 12 s: 1 TaskManager with 2 slots, none of them free",
    ),
    (
        "resource-manager",
        waiting_for_slots(unresponsive=(silent("the ResourceManager"),)),
        "1 task of job 'prices' waits for a slot for 12 s: the ResourceManager does not answer: it has not"
        " answered for 2 s and is handling TriggerCheckpoint, 14 messages waiting",
    ),
    (
        "state",
        answers(job=job(waits_for_state=NOW - 5_000)),
        "job 'prices' waits for 5 s for the state from which its tasks start",
    ),
    (
        "opening",
        answers(
            task(WINDOW_2, state=ExecutionState.DEPLOYING),
            job=job(attempts=(attempt(SOURCE), attempt(WINDOW_1), attempt(WINDOW_2, ExecutionState.DEPLOYING))),
            stages={WINDOW_2: spark(0, 0, what="opening")},
        ),
        "window (2/2) is being deployed for 40 s on task-manager-1: it is DEPLOYING: its opening has no running Spark"
        " job",
    ),
    # An actor is stuck.
    (
        "task",
        answers(task(SOURCE), unresponsive=(silent("window (2/2)", WINDOW_2),)),
        "window (2/2) is stuck: it has not answered for 2 s and is handling TriggerCheckpoint, 14 messages waiting",
    ),
    (
        "coordinator",
        answers(task(SOURCE), unresponsive=(silent("the CheckpointCoordinator"),)),
        "the CheckpointCoordinator is stuck: it has not answered for 2 s and is handling TriggerCheckpoint,"
        " 14 messages waiting",
    ),
    # A checkpoint is waiting.
    (
        "hanging-stage",
        answers(
            task(SOURCE),
            task(WINDOW_2, stages=at_stage(), activity="busy"),
            checkpoints=pending(WINDOW_2),
            stages={WINDOW_2: spark()},
        ),
        "window (2/2) has not acknowledged checkpoint 7 for 41 s: its stage 'merge' has finished 3 of 8 Spark tasks",
    ),
    (
        "standing-still",
        answers(
            task(WINDOW_2, stages=at_stage()),
            checkpoints=pending(WINDOW_2),
            stages={WINDOW_2: spark(progress_ms=NOW - 35_000, tasks_failed=2)},
        ),
        "window (2/2) has not acknowledged checkpoint 7 for 41 s: its stage 'merge' has finished 3 of 8 Spark tasks,"
        " 2 failed, none finished for 35 s",
    ),
    (
        "barrier",
        answers(
            task(SOURCE, stages=at_stage("reads its source"), is_source=True),
            idle_window(0, aligning=7, barrier_missing=True),
            idle_window(1),
            checkpoints=pending(SOURCE, WINDOW_1, WINDOW_2),
        ),
        "source (1/1) has not acknowledged checkpoint 7 for 41 s (nor have 2 others): it reads its source",
    ),
    (
        "barrier-behind-another",
        answers(
            task(SOURCE, stages=at_stage("reads its source"), is_source=True),
            idle_window(0, aligning=7, barrier_missing=True),
            checkpoints=pending(WINDOW_1),
        ),
        "window (1/2) has not acknowledged checkpoint 7 for 41 s: it waits for the barrier of checkpoint 7 of"
        " source (1/1); source (1/1): it reads its source",
    ),
    (
        "snapshot",
        answers(task(WINDOW_1, snapshotting=(7,)), checkpoints=pending(WINDOW_1)),
        "window (1/2) has not acknowledged checkpoint 7 for 41 s: it writes its snapshot for checkpoint 7",
    ),
    (
        "back-pressure",
        answers(
            task(SOURCE, outputs=(full_output(1),), activity="back-pressured"),
            idle_window(1, stages=at_stage()),
            checkpoints=pending(SOURCE),
        ),
        "source (1/1) has not acknowledged checkpoint 7 for 41 s: its output is full: window (2/2) accepts no more"
        " batches; window (2/2): it processes a batch",
    ),
    (
        "master-hooks",
        answers(checkpoints=pending(phase="master hooks")),
        "checkpoint 7 of job 'prices' waits for its master hooks for 41 s",
    ),
    (
        "metadata",
        answers(checkpoints=pending(phase="metadata")),
        "checkpoint 7 of job 'prices' waits for its metadata for 41 s",
    ),
    # The job works, or has nothing to do.
    (
        "young-checkpoint",
        answers(task(WINDOW_2, stages=at_stage(since_ms=NOW - 200)), checkpoints=pending(WINDOW_2, since_ms=NOW - 100)),
        "job 'prices' works: window (2/2) is running for 0.2 s: it processes a batch",
    ),
    (
        "back-pressured",
        answers(task(SOURCE, outputs=(full_output(1),))),
        "job 'prices' is back-pressured: source (1/1): its output is full: its reader accepts no more batches",
    ),
    (
        "no-input",
        answers(task(SOURCE, is_source=True, waits_for_splits=True), idle_window(0), idle_window(1)),
        "job 'prices' waits for input: source (1/1) has nothing to read for 3 s",
    ),
    (
        "aligned",
        answers(task(SOURCE, is_source=True, waits_for_group="orders"), idle_window(0), idle_window(1)),
        "job 'prices' runs: source (1/1): it waits for the sources of group 'orders', which are far behind in event"
        " time",
    ),
    (
        "final-checkpoint",
        answers(task(SOURCE, **FINAL), task(WINDOW_1, **FINAL), task(WINDOW_2, **FINAL), details=NO_CHECKPOINT),
        "job 'prices' has processed its last row and waits for the final checkpoint; the last one, 3, failed: EXPIRED",
    ),
    (
        "input",
        answers(idle_window(0), task(SOURCE, **FINAL)),
        "job 'prices' runs: window (1/2): it waits for input of source (1/1); source (1/1): it has processed its last"
        " row and waits for the final checkpoint",
    ),
]


@pytest.mark.parametrize(("given", "answer"), [case[1:] for case in TABLE], ids=[case[0] for case in TABLE])
def test_the_first_line_contains_the_conclusion(given: ActorReports, answer: str) -> None:
    assert diagnose(given).answer == answer


@pytest.mark.parametrize("given", [case[1] for case in TABLE], ids=[case[0] for case in TABLE])
def test_an_explanation_is_rendered_as_one_screen_of_text_and_as_html(given: ActorReports) -> None:
    why = diagnose(given)

    assert str(why).splitlines()[0] == why.answer
    assert len(str(why).splitlines()) <= 30
    assert why.answer.split("'")[0] in why._repr_html_()


@pytest.mark.parametrize("status", [JobStatus.FINISHED, JobStatus.CANCELED])
def test_a_successful_job_mentions_no_failure(status: JobStatus) -> None:
    why = diagnose(answers(job=None, details=details(status, last_failure=BUG)))

    assert "failure" not in str(why)
    assert BUG.message not in str(why)


def test_a_mutual_wait_is_explained_without_an_endless_loop() -> None:
    # Reports from different moments may contradict each other in this way.
    full = task(SOURCE, outputs=(full_output(1),))
    reader = idle_window(1)

    assert "its output is full: window (2/2) accepts no more batches" in diagnose(answers(full, reader)).answer


def test_only_informative_attempts_of_ten_thousand_are_shown() -> None:
    many = tuple(
        replace(attempt(WINDOW_1), attempt=attempt_id(JOB, JobVertexId("window"), n, 0), name=f"window ({n + 1})")
        for n in range(9_999)
    )
    stuck = attempt(WINDOW_2)
    why = diagnose(answers(job=job(attempts=(*many, stuck)), unresponsive=(silent("window (2/2)", WINDOW_2),)))

    assert why.attempts[-1].name == "window (2/2)"
    assert why.left_out == 10_000 - len(why.attempts)


def test_facts_are_listed_with_their_labels() -> None:
    why = diagnose(TABLE_BY_NAME["hanging-stage"])

    assert why.facts == (
        ("job", "'prices' job-1 RUNNING for 40 s, 0 restarts"),
        ("tasks", "3 RUNNING"),
        ("pending", "checkpoint 7 for 41 s, acknowledged by 1 of 2, waits for window (2/2)"),
        ("checkpoints", "6 completed, 0 failed; the last complete one, 6, 52 s ago"),
    )
    assert [(each.name, each.activity, each.waits_for) for each in why.attempts] == [
        ("source (1/1)", "idle", "is idle"),
        ("window (1/2)", "-", "is RUNNING, and its Task has ended"),
        ("window (2/2)", "busy", "its stage 'merge' has finished 3 of 8 Spark tasks"),
    ]


@pytest.mark.parametrize(
    ("unread", "limit", "backlog"),
    [
        (0, 2**24, None),
        (1, None, "source (1/1) has 1 file to read"),
        (3_400, 2**20, "source (1/1) has 3,400 files to read, 1.0 MiB in a batch: a second of reading"),
    ],
)
def test_the_backlog_of_a_source_is_shown_with_its_batch_size(
    unread: int, limit: int | None, backlog: str | None
) -> None:
    reading = task(SOURCE, is_source=True, files_unread=unread, batch_limit_bytes=limit)

    assert dict(diagnose(answers(reading)).facts).get("backlog") == backlog


def test_user_names_are_escaped_in_html() -> None:
    why = JobDiagnosis(job_name="<b>", job_id="j", answer="job '<b>' works")

    assert "<b>" not in why._repr_html_()


TABLE_BY_NAME = {name: given for name, given, _ in TABLE}
