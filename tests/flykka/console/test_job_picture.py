"""The picture of a job on wide and narrow terminals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.console.job_picture import JobPicture
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.checkpointing.statistics import CheckpointStatsStatus
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.job_details import (
    CheckpointStatistics,
    JobDetails,
    JobVertexDetails,
    Latency,
    Restart,
    SubtaskCount,
    TimeSeries,
    TimeShares,
)
from flykka.messages.tasks.task import EventTimeHold, ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from tests.flykka.console.pictures import DETAILS, VERTEX, completed_statistics, rendered_lines

BUSY = replace(
    VERTEX,
    rows_in=336_776,
    rows_out=19_486,
    rows_in_per_second=12_345.6,
    watermark_ms=1_370_059_200_000,
    watermark_lag_ms=2_500,
    shares=TimeShares(busy=0.4, back_pressured=0.2, idle=0.4),
)


WANTED = "tasks rows_in rows/s watermark lag busy"
ALL = "tasks rows_in rows_out rows/s watermark lag busy back-pressured queued"


def vertex_lines(*vertices: JobVertexDetails, width: int, height: int = 24) -> list[str]:
    """Return the lines between the header and the checkpoints."""
    return rendered_lines(JobPicture(replace(DETAILS, vertices=vertices)), width, height=height)[2:-2]


def column_titles(line: str) -> str:
    return " ".join(title.strip().replace(" ", "_") for title in line.split("  ") if title.strip())


def cells(vertex: JobVertexDetails, width: int = 140, encoding: str = "utf-8") -> dict[str, str]:
    lines = rendered_lines(JobPicture(replace(DETAILS, vertices=(vertex,))), width, encoding)[2:4]
    titles, row = ([cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines)
    return dict(zip(titles, row, strict=True))


def test_a_new_job_has_a_header_and_a_note_that_nothing_happened() -> None:
    assert rendered_lines(JobPicture(DETAILS), width=60) == [
        "",
        "delays  RUNNING  12.3 s",
        "  tasks            rows in     rows/s      lag  busy",
        "checkpoints  none yet",
        "restarts     none",
    ]


def test_published_rows_and_rows_that_wait_for_a_checkpoint_are_distinguished() -> None:
    sinks = tuple(replace(VERTEX, sinks=(name,), rows_published=668, rows_staged=20) for name in ("a", "b"))

    lines = rendered_lines(JobPicture(replace(DETAILS, vertices=sinks)), width=60)

    assert lines[-3:] == [
        "written      1,336 rows published, 40 staged",
        "checkpoints  none yet",
        "restarts     none",
    ]


@pytest.mark.parametrize(
    ("waiting", "header"),
    [
        (1, "delays  RUNNING  12.3 s  1 file waits"),
        (1_240, "delays  RUNNING  12.3 s  1,240 files wait"),
    ],
)
def test_the_header_counts_waiting_files(waiting: int, header: str) -> None:
    behind = replace(DETAILS, vertices=(replace(VERTEX, files_waiting=waiting), VERTEX))

    assert rendered_lines(JobPicture(behind), width=60)[1] == header


def test_the_header_names_the_source_that_holds_back_event_time() -> None:
    hold = EventTimeHold(subtask=0, since_ms=DETAILS.duration_ms + (DETAILS.started_ms or 0) - 60_000, partition="3")
    source = replace(VERTEX, sources=("bids",), held_back_by=hold)

    header = rendered_lines(JobPicture(replace(DETAILS, vertices=(source, VERTEX))), width=120)[1]

    assert header.endswith("  event time waits for partition '3' of bids: no row with an event time for 1 min 0 s")


@pytest.mark.parametrize(
    ("rates", "encoding", "rate"),
    [
        ((0.0, 800.0, None, 1_600.0, 1.0, 9_000.0), "utf-8", "  rows/s ▁▅ █▂ at most 1,600"),
        ((5_000.0, *[100.0] * 20, 0.0), "utf-8", f"  rows/s {'█' * 20} at most 100"),
        ((0.0, 0.0, 9.0), "utf-8", ""),
        ((0.0, 800.0, 0.0), "ascii", ""),
    ],
    ids=["with a gap", "the last twenty bytes", "nothing read", "unencodable characters"],
)
def test_the_header_ends_with_the_recent_read_rate_of_sources(
    rates: tuple[float | None, ...], encoding: str, rate: str
) -> None:
    reading = replace(DETAILS, throughput=TimeSeries(start_ms=12_000 - 1_000 * (len(rates) - 1), values=rates))

    assert rendered_lines(JobPicture(reading), encoding=encoding)[1] == f"delays  RUNNING  12.3 s{rate}"


def test_a_wide_terminal_shows_all_figures_of_a_vertex() -> None:
    assert cells(BUSY, width=200) == {
        "vertex": "Source: flights",
        "tasks": "2 RUNNING",
        "rows in": "336,776",
        "rows out": "19,486",
        "rows/s": "12,346",
        "watermark": "2013-06-01 04:00:00",
        "lag": "2.5 s",
        "busy": "██▒·· 40%",
        "back-pressured": "20%",
        "queued": "0|0",
    }


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (200, f"vertex {ALL}"),
        (140, f"vertex {WANTED} back-pressured"),
        (120, f"vertex {WANTED}"),
        (80, WANTED),
        (60, "tasks rows_in rows/s lag busy"),
        (40, "tasks rows_in rows/s"),
        (20, "tasks"),
    ],
)
def test_the_complete_name_and_the_most_important_figures_take_precedence(width: int, titles: str) -> None:
    long = replace(BUSY, name="delays per origin and hour -> Sink: b")

    heading, *lines = vertex_lines(long, width=width)

    assert column_titles(heading) == titles
    assert lines[0].startswith(long.name[: width - 1])
    assert len(lines) == (1 if titles.startswith("vertex") else 2)


def test_name_and_figures_are_on_separate_lines_if_too_wide_for_one() -> None:
    long = replace(BUSY, name="Source: flights -> local delays per origin and hour")

    assert vertex_lines(long, VERTEX, width=80) == [
        "  tasks            rows in     rows/s  watermark                lag  busy",
        "Source: flights -> local delays per origin and hour",
        "  2 RUNNING        336,776     12,346  2013-06-01 04:00:00    2.5 s  ██▒·· 40%",
        "Source: flights",
        "  2 RUNNING              0          0  -                          -  -",
    ]


def test_names_are_truncated_if_the_terminal_is_narrow_and_low() -> None:
    long = replace(BUSY, name="Source: flights -> local delays per origin and hour")

    heading, *lines = vertex_lines(*[long] * 8, width=80, height=24)

    assert column_titles(heading) == "vertex tasks rows_in rows/s lag busy"
    assert lines == ["Source: flights -> lo…  2 RUNNING        336,776     12,346    2.5 s  ██▒·· 40%"] * 8


def test_jobs_that_share_the_terminal_share_its_height() -> None:
    long = replace(BUSY, name="Source: flights -> local delays per origin and hour")
    details = replace(DETAILS, vertices=(long,) * 3)

    assert [len(rendered_lines(JobPicture(details, jobs=jobs), width=80, height=24)) for jobs in (1, 2)] == [11, 8]


def test_queue_sizes_are_shown_on_wide_terminals() -> None:
    waiting = replace(BUSY, input_queue_length=3, output_queue_length=12)

    assert cells(waiting, width=200)["queued"] == "3|12"


def test_latency_has_a_column_if_it_is_tracked() -> None:
    tracked = replace(BUSY, latency=Latency(median_ms=120, p99_ms=900))

    assert cells(tracked, width=200)["latency"] == "120 ms"
    assert "latency" not in cells(BUSY, width=200)


@pytest.mark.parametrize("width", [20, 40, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    busy = replace(
        DETAILS,
        vertices=(replace(BUSY, name="a name that is longer than any terminal " * 10),),
        checkpoints=tuple(completed_statistics(number) for number in range(9)),
        restarts=(Restart(at_ms=0, cause=SerializedThrowable(type_name="E", message="why " * 100)),),
    )

    lines = rendered_lines(JobPicture(busy), width)

    assert len(lines) == 7
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize(
    ("state", "subtasks", "text"),
    [
        (ExecutionState.CREATED, {ExecutionState.SCHEDULED: 2}, "2 CREATED"),
        (ExecutionState.RUNNING, {ExecutionState.RUNNING: 1, ExecutionState.DEPLOYING: 1}, "1/2 RUNNING"),
        (ExecutionState.FINISHED, {ExecutionState.FINISHED: 2}, "2 FINISHED"),
    ],
)
def test_subtasks_in_other_states_are_shown(
    state: ExecutionState, subtasks: dict[ExecutionState, int], text: str
) -> None:
    counts = tuple(SubtaskCount(state=each, count=count) for each, count in subtasks.items())

    assert cells(replace(BUSY, state=state, subtask_counts=counts))["tasks"] == text


def test_the_end_of_the_input_replaces_the_watermark() -> None:
    ended = replace(BUSY, watermark_ms=None, watermark_lag_ms=None, event_time_ended=True)

    assert (cells(ended)["watermark"], cells(ended)["lag"]) == ("end of input", "-")


def test_unmeasured_values_are_left_blank() -> None:
    assert (cells(VERTEX)["watermark"], cells(VERTEX)["busy"], cells(VERTEX)["back-pressured"]) == ("-", "-", "-")


def test_a_terminal_without_unicode_gets_printable_characters_only() -> None:
    long = replace(BUSY, name="a name that is longer than any terminal " * 10)

    lines = rendered_lines(JobPicture(replace(DETAILS, vertices=(long, VERTEX))), encoding="latin-1")

    assert "\n".join(lines).isascii()
    assert cells(BUSY, encoding="latin-1")["busy"] == "##=.. 40%"


def details(**changes: object) -> JobDetails:
    return replace(DETAILS, **changes)  # type: ignore[arg-type]


def test_the_last_five_checkpoints_are_shown_newest_first() -> None:
    failed = CheckpointStatistics(
        checkpoint_id=7,
        status=CheckpointStatsStatus.FAILED,
        ended_ms=0,
        reason=CheckpointDeclineReason.EXPIRED,
    )
    seven = (*(completed_statistics(number) for number in range(1, 7)), failed)

    line = rendered_lines(JobPicture(details(checkpoints=seven)), width=200)[-2]

    size = "300 ms, 2.0 KiB (512 B new)"
    assert line == f"checkpoints  #7 EXPIRED   #6 in {size}   #5 in {size}   #4 in {size}   #3 in {size}"


def test_the_reason_of_the_last_restart_is_shown() -> None:
    restarts = (
        Restart(at_ms=0, cause=None),
        Restart(at_ms=1, cause=SerializedThrowable(type_name="ValueError", message="boom\nat line 1")),
    )

    assert (
        rendered_lines(JobPicture(details(restarts=restarts, number_of_restarts=2)))[-1]
        == "restarts     2, the last after ValueError: boom"
    )


def test_a_stopped_job_is_distinguished_from_a_finished_one() -> None:
    stopped = details(status=JobStatus.FINISHED, kept_checkpoint="/chk-9")

    assert rendered_lines(JobPicture(stopped))[1] == "delays  STOPPED  12.3 s"


@pytest.mark.parametrize("status", JobStatus)
def test_every_status_can_be_shown(status: JobStatus) -> None:
    assert rendered_lines(JobPicture(details(status=status)))[1] == f"delays  {status}  12.3 s"
