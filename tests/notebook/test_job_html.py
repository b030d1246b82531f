"""What a job looks like: every fact is in the picture, and nothing of the user's becomes markup."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.jobs.job_details import JobDetails, Latency
from flykka.messages.failure import SerializedThrowable
from flykka.messages.ids import JobId
from flykka.messages.job import JobStatus
from flykka.notebook.job_html import job_html
from flykka.notebook.job_text import job_text
from tests.notebook.html_reader import Reader
from tests.notebook.jobs import LOST, NEW, RESTARTED, SOURCE, WINDOWS, aborted, completed, job


def shown(details: JobDetails) -> Reader:
    return Reader(job_html(details))


def test_a_vertex_has_a_row_with_its_state_its_rows_its_event_time_and_its_load() -> None:
    picture = shown(RESTARTED)

    assert picture.rows[:3] == [
        ["vertex", "state", "rows in", "rows out", "rows/s", "watermark", "lag", "busy, back-pressured"],
        ["Source: flights ×1", "RUNNING", "120,000", "119,400", "8,419", "", "", "62 %, 11 %"],
        [
            "delays per origin and hour → Sink: output folder ×2",
            "RUNNING 1/2",
            "118,000",
            "6,900",
            "8,112",
            "2013-03-04 05:00:00",
            "25 h",
            "34 %, 0 %",
        ],
    ]


def test_latency_is_told_where_it_is_tracked() -> None:
    source, windows = RESTARTED.vertices
    measured = replace(windows, latency=Latency(median_ms=120, p99_ms=1_500))

    picture = shown(replace(RESTARTED, vertices=(source, measured)))

    assert [row[-2] for row in picture.rows[:3]] == ["latency, 99 %", "", "120 ms, 1.5 s"]


def test_what_a_vertex_does_at_the_moment_is_not_told_of_a_job_that_has_ended() -> None:
    picture = shown(job(status=JobStatus.FINISHED))

    assert picture.rows[0] == ["vertex", "state", "rows in", "rows out", "watermark"]


def test_a_job_that_was_stopped_is_told_from_one_that_came_to_its_end() -> None:
    stopped = job(status=JobStatus.FINISHED, kept_checkpoint="/chk-9")

    assert "</span>STOPPED</span>" in job_html(stopped)
    assert job_text(stopped).startswith(f"job {stopped.name!r} STOPPED")


def test_late_rows_have_a_column_where_there_are_some() -> None:
    picture = shown(job(vertices=(SOURCE, replace(WINDOWS, late_rows=1_234))))

    assert [row[5] for row in picture.rows[:3]] == ["late", "0", "1,234"]


def test_the_last_five_checkpoints_are_shown_the_newest_first() -> None:
    picture = shown(RESTARTED)

    header, newest, *others = picture.rows[3:9]
    assert header == ["checkpoint", "status", "took", "size", "new", "6 completed, 1 failed; restored from 6"]
    assert newest == ["7", "FAILED", "", "", "", "JOB_FAILOVER_REGION"]
    assert others[0] == ["6", "COMPLETED", "415 ms", "5.7 KiB", "1.0 KiB", ""]
    assert [row[0] for row in others] == ["6", "5", "4", "3"]


def test_a_restart_is_told_with_its_time_and_its_reason() -> None:
    picture = shown(RESTARTED)

    assert picture.rows[-2:] == [["restart", "why"], ["after 8.4 s", "SlotLostError: task-manager-2 is lost"]]
    assert "RUNNING14.3 s, 1 restart" in picture.text


def test_a_failed_job_tells_its_whole_failure_and_one_that_has_overcome_it_does_not() -> None:
    failed = shown(job(status=JobStatus.FAILED))
    running = shown(RESTARTED)

    assert failed.text.endswith("SlotLostError: task-manager-2 is lost\nits actor has ended")
    assert "its actor has ended" not in running.text


def test_before_anything_has_happened_the_plan_is_shown_and_nothing_else() -> None:
    picture = shown(NEW)

    assert picture.rows[1][:2] == ["Source: flights ×1", "CREATED"]
    assert len(picture.rows) == 2


@pytest.mark.parametrize(
    "hostile",
    [
        job(name="<script>alert(1)</script>"),
        job(job_id=JobId("<script>")),
        job(vertices=(replace(SOURCE, name="<script>"),)),
        job(
            status=JobStatus.FAILED,
            last_failure=SerializedThrowable(type_name="<script>", message="<script>alert(1)</script></div>"),
        ),
        job(restarts=(replace(RESTARTED.restarts[0], cause=replace(LOST, message="<script>")),)),
    ],
)
def test_what_users_and_failures_say_is_text_and_never_markup(hostile: JobDetails) -> None:
    picture = shown(hostile)

    assert "<script>" in picture.text
    assert picture.seen == shown(RESTARTED).seen


def test_the_text_says_the_same_in_a_few_lines() -> None:
    assert job_text(RESTARTED).splitlines() == [
        "job 'flights' RUNNING, 14.3 s, 1 restart",
        "  Source: flights: RUNNING, 120,000 rows in, 119,400 out, 8,419/s",
        "  delays per origin and hour -> Sink: output folder: RUNNING 1/2, 118,000 rows in, 6,900 out, 8,112/s",
        "  checkpoint 6: 415 ms, 5.7 KiB, 1.0 KiB of it new",
        "  last failure: SlotLostError: task-manager-2 is lost",
    ]


def test_the_text_of_a_job_that_has_failed_ends_with_why() -> None:
    text = job_text(job(status=JobStatus.FAILED, checkpoints=(completed(1), aborted(2))))

    assert text.splitlines()[-1] == "  failed: SlotLostError: task-manager-2 is lost"
