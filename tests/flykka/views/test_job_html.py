"""The picture of a job contains every fact, and user text never becomes markup."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.job_details import JobDetails, Latency, TimeSeries
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.views.job_text import job_text
from flykka.views.live_display import job_html
from tests.flykka.notebook.html_reader import Reader
from tests.flykka.notebook.jobs import (
    LOST,
    NEW,
    RESTARTED,
    SOURCE,
    WINDOWS,
    completed_statistics,
    failed_statistics,
    job_details,
)


def read_html(details: JobDetails) -> Reader:
    return Reader(job_html(details))


def test_a_vertex_has_a_row_with_state_rows_event_time_and_load() -> None:
    picture = read_html(RESTARTED)

    assert picture.rows[:3] == [
        [
            "vertex",
            "state",
            "rows in",
            "rows out",
            "published",
            "staged",
            "rows/s",
            "watermark",
            "lag",
            "busy, back-pressured",
        ],
        ["Source: flights ×1", "RUNNING", "120,000", "119,400", "", "", "8,419", "", "", "62 %, 11 %"],
        [
            "delays per origin and hour → Sink: output folder ×2",
            "RUNNING 1/2",
            "118,000",
            "6,900",
            "6,500",
            "400",
            "8,112",
            "2013-03-04 05:00:00",
            "25 h",
            "34 %, 0 %",
        ],
    ]


def test_latency_is_shown_if_it_is_tracked() -> None:
    source, windows = RESTARTED.vertices
    measured = replace(windows, latency=Latency(median_ms=120, p99_ms=1_500))

    picture = read_html(replace(RESTARTED, vertices=(source, measured)))

    assert [row[-2] for row in picture.rows[:3]] == ["latency, 99 %", "", "120 ms, 1.5 s"]


def test_the_current_work_of_a_vertex_is_not_shown_for_ended_jobs() -> None:
    picture = read_html(job_details(status=JobStatus.FINISHED, vertices=(SOURCE,)))

    assert picture.rows[0] == ["vertex", "state", "rows in", "rows out", "watermark"]


def test_staged_rows_have_a_column_if_there_are_any() -> None:
    details = job_details(vertices=(SOURCE, replace(WINDOWS, rows_published=6_900, rows_staged=0)))

    picture = read_html(details)

    assert [row[4:6] for row in picture.rows[:3]] == [["published", "rows/s"], ["", "8,419"], ["6,900", "8,112"]]
    assert "6,900 published, 8,112/s" in job_text(details)


def test_a_stopped_job_is_distinguished_from_a_finished_one() -> None:
    stopped = job_details(status=JobStatus.FINISHED, kept_checkpoint="/chk-9")

    assert "</span>STOPPED</span>" in job_html(stopped)
    assert job_text(stopped).startswith(f"job {stopped.name!r} STOPPED")


def test_late_rows_have_a_column_if_there_are_any() -> None:
    picture = read_html(job_details(vertices=(SOURCE, replace(WINDOWS, late_rows=1_234))))

    assert [row[7] for row in picture.rows[:3]] == ["late", "0", "1,234"]


def test_the_last_five_checkpoints_are_shown_newest_first() -> None:
    picture = read_html(RESTARTED)

    header, newest, *others = picture.rows[3:9]
    assert header == ["checkpoint", "status", "took", "size", "new", "6 completed, 1 failed; restored from 6"]
    assert newest == ["7", "FAILED", "", "", "", "JOB_FAILOVER_REGION"]
    assert others[0] == ["6", "COMPLETED", "415 ms", "5.7 KiB", "1.0 KiB", ""]
    assert [row[0] for row in others] == ["6", "5", "4", "3"]


def test_an_old_failed_checkpoint_is_in_the_table_with_its_reason() -> None:
    picture = read_html(job_details(checkpoints=(failed_statistics(1), *map(completed_statistics, range(2, 40)))))

    checkpoints = [row for row in picture.rows if row[1:2] in (["COMPLETED"], ["FAILED"])]
    assert [row[0] for row in checkpoints] == ["39", "38", "37", "36", "35", "1"]
    assert checkpoints[-1] == ["1", "FAILED", "", "", "", "JOB_FAILOVER_REGION"]
    assert "are in the table job.checkpoints" in picture.text


def test_an_ended_job_shows_all_of_its_checkpoints_on_demand() -> None:
    every = (failed_statistics(1), *map(completed_statistics, range(2, 40)))

    picture = read_html(job_details(status=JobStatus.FINISHED, checkpoints=every, checkpoints_completed=38))

    assert "details" in picture.tags
    assert "all 39 checkpoints" in picture.text
    assert [row[0] for row in picture.rows if row[1:2] in (["COMPLETED"], ["FAILED"])][6:] == [
        str(number) for number in range(39, 0, -1)
    ]


def test_rows_read_again_have_a_column_if_there_are_any() -> None:
    details = job_details(vertices=(replace(SOURCE, rows_read_again=1_500), WINDOWS))

    picture = read_html(details)

    assert [row[2:4] for row in picture.rows[:3]] == [
        ["rows in", "read again"],
        ["120,000", "up to 1,500"],
        ["118,000", ""],
    ]
    assert "120,000 rows in (up to 1,500 of them read again)" in job_text(details)


def test_throughput_lag_and_checkpoints_are_pictures_with_captions() -> None:
    details = job_details(
        throughput=TimeSeries(start_ms=0, step_ms=1_000, values=(0.0, 900.0, 1_200.0)),
        watermark_lag=TimeSeries(start_ms=0, step_ms=1_000, values=(None, 5_000.0, 2_000.0)),
    )

    picture = read_html(details)

    # In the heading above the picture, and in the picture's title.
    assert picture.text.count("rows read per second") == 2
    for caption in ("at most 1,200, in steps of 1.0 s", "latest 2.0 s, maximum 5.0 s", "at most 415 ms, 1 failed"):
        assert caption in picture.text
    assert "svg" in picture.tags
    assert "script" not in picture.tags


@pytest.mark.parametrize(
    ("into_the_step_ms", "status", "most"),
    [(999, JobStatus.RUNNING, "900"), (1_000, JobStatus.RUNNING, "4,000"), (1, JobStatus.FINISHED, "4,000")],
)
def test_the_rate_of_an_incomplete_step_is_not_drawn(into_the_step_ms: int, status: JobStatus, most: str) -> None:
    rates = TimeSeries(start_ms=5_000, step_ms=2_000, values=(900.0, 4_000.0))
    details = job_details(status=status, started_ms=4_000, duration_ms=3_000 + into_the_step_ms, throughput=rates)

    assert f"at most {most}, in steps of 2.0 s" in read_html(details).text


def test_the_caption_of_the_bars_covers_the_drawn_checkpoints() -> None:
    slow = replace(completed_statistics(1), duration_ms=90_000)

    picture = read_html(job_details(checkpoints=(slow, failed_statistics(2), *map(completed_statistics, range(3, 60)))))

    assert "time of checkpointstime of checkpoints: at most 415 msat most 415 ms" in picture.text


def test_there_is_no_picture_before_the_first_measurement() -> None:
    assert "svg" not in read_html(NEW).tags


def test_a_restart_is_shown_with_its_time_and_its_reason() -> None:
    picture = read_html(RESTARTED)

    assert picture.rows[-2:] == [
        ["restarted", "why"],
        ["8.4 s into the run", "SlotLostError: task-manager-2 is lost"],
    ]
    assert "RUNNING14.3 s, 1 restart" in picture.text


def test_only_a_failed_job_shows_its_whole_failure() -> None:
    failed = read_html(job_details(status=JobStatus.FAILED))
    running = read_html(RESTARTED)

    assert failed.text.endswith("SlotLostError: task-manager-2 is lost\nits actor has ended")
    assert "its actor has ended" not in running.text


def test_before_any_event_only_the_plan_is_shown() -> None:
    picture = read_html(NEW)

    assert picture.rows[1][:2] == ["Source: flights ×1", "CREATED"]
    assert len(picture.rows) == 2


@pytest.mark.parametrize(
    "hostile",
    [
        job_details(name="<script>alert(1)</script>"),
        job_details(job_id=JobId("<script>")),
        job_details(vertices=(replace(SOURCE, name="<script>"),)),
        job_details(
            status=JobStatus.FAILED,
            last_failure=SerializedThrowable(type_name="<script>", message="<script>alert(1)</script></div>"),
        ),
        job_details(restarts=(replace(RESTARTED.restarts[0], cause=replace(LOST, message="<script>")),)),
    ],
)
def test_texts_of_users_and_failures_never_become_markup(hostile: JobDetails) -> None:
    picture = read_html(hostile)

    assert "<script>" in picture.text
    assert picture.tags == read_html(job_details(status=hostile.status)).tags


def test_the_text_contains_the_same_facts_in_a_few_lines() -> None:
    assert job_text(RESTARTED).splitlines() == [
        "job 'flights' RUNNING, 14.3 s, 1 restart",
        "  Source: flights: RUNNING, 120,000 rows in, 119,400 out, 8,419/s",
        "  delays per origin and hour -> Sink: output folder: RUNNING 1/2, 118,000 rows in, 6,900 out,"
        " 6,500 published (400 more are staged), 8,112/s",
        "  checkpoint 6: 415 ms, 5.7 KiB, 1.0 KiB of it new",
        "  restarted 8.4 s into the run",
        "  last failure: SlotLostError: task-manager-2 is lost",
    ]


def test_the_text_of_a_failed_job_ends_with_the_cause() -> None:
    text = job_text(job_details(status=JobStatus.FAILED, checkpoints=(completed_statistics(1), failed_statistics(2))))

    assert text.splitlines()[-1] == "  failed: SlotLostError: task-manager-2 is lost"
