"""The start of a job that may have run before: one case per state of its checkpoint directory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.client.continuation import (
    PYTHON,
    FolderContents,
    LastRunState,
    Refusal,
    RunTraces,
    Start,
    decide,
    last_run_state,
)
from flykka.client.start_settings import StartMode
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobRun
from flykka.messages.wire.ids import JobId

NEW = RunTraces(job_name="counts", folders=(FolderContents(path="/out"),))
WITH_ROWS = replace(NEW, folders=(FolderContents(path="/out", own=3),))
LEFT_OFF = replace(
    WITH_ROWS, last_run=LastRunState.LEFT_OFF, checkpoint="/c/chk-7", description="checkpoint 7 of 14:03:22 (/c/chk-7)"
)
MISFIT = replace(LEFT_OFF, checkpoint=None, mismatch="job 'counts' cannot continue from '/c/chk-7': it holds 'hourly'")
FINISHED = replace(NEW, last_run=LastRunState.ENDED)
RUN = JobRun(job_id=JobId("x"), job_name="counts")


@pytest.mark.parametrize(
    ("run", "is_there", "state"),
    [
        (None, False, LastRunState.NONE),
        (RUN, True, LastRunState.LEFT_OFF),
        (RUN, False, LastRunState.ENDED),
        (replace(RUN, status=JobStatus.FINISHED), False, LastRunState.ENDED),
        (replace(RUN, status=JobStatus.FINISHED, checkpoint_path="/c/chk-7"), True, LastRunState.LEFT_OFF),
        (replace(RUN, status=JobStatus.FINISHED, checkpoint_path="/s/savepoint-1"), False, LastRunState.LEFT_OFF),
        (replace(RUN, status=JobStatus.FAILED, checkpoint_path="/c/chk-7"), True, LastRunState.LEFT_OFF),
        (replace(RUN, status=JobStatus.CANCELED), False, LastRunState.ENDED_WITHOUT_CHECKPOINT),
        (replace(RUN, status=JobStatus.FAILED), True, LastRunState.ENDED_WITHOUT_CHECKPOINT),
    ],
)
def test_the_run_record_states_whether_a_run_finished(run: JobRun | None, is_there: bool, state: LastRunState) -> None:
    assert last_run_state(run, is_there=is_there) is state


def test_a_new_job_starts_without_a_message() -> None:
    assert decide(NEW, StartMode.AUTO) == Start()


def test_a_job_continues_from_its_last_checkpoint_with_a_message() -> None:
    started = decide(LEFT_OFF, StartMode.AUTO)

    assert started == Start(
        restore_path="/c/chk-7", notices=("continuing 'counts' from checkpoint 7 of 14:03:22 (/c/chk-7)",)
    )


def test_a_cancelled_job_without_published_rows_restarts_with_a_message() -> None:
    cancelled = replace(NEW, last_run=LastRunState.ENDED_WITHOUT_CHECKPOINT)

    assert decide(cancelled, StartMode.AUTO) == Start(
        notices=("'counts' starts at the beginning of its input: its last run retained no checkpoint",)
    )


@pytest.mark.parametrize(
    ("traces", "mode", "reason", "commands"),
    [
        (
            replace(FINISHED, folders=WITH_ROWS.folders),
            StartMode.AUTO,
            "has already reached the end of its input; run again, it would publish the same rows once more: there are"
            " 3 files of it in /out",
            ("--from-checkpoint PATH", "--fresh, with another folder", "--overwrite /out"),
        ),
        (FINISHED, StartMode.AUTO, "has already reached the end of its input", ("--from-checkpoint PATH", "--fresh")),
        (
            replace(NEW, folders=(FolderContents(path="/out", own=1),)),
            StartMode.AUTO,
            "has published rows: there is 1 file of it in /out",
            (),
        ),
        (
            WITH_ROWS,
            StartMode.AUTO,
            "has no checkpoint to continue from, but has published rows: there are 3 files of it in /out",
            ("--from-checkpoint PATH", "--fresh, with another folder", "--overwrite /out"),
        ),
        (
            replace(WITH_ROWS, last_run=LastRunState.ENDED_WITHOUT_CHECKPOINT),
            StartMode.AUTO,
            "has no checkpoint to continue from",
            ("--overwrite /out",),
        ),
        (
            replace(WITH_ROWS, last_run=LastRunState.RUNS_HERE),
            StartMode.AUTO,
            "has no checkpoint to continue from",
            ("--overwrite /out",),
        ),
        (
            LEFT_OFF,
            StartMode.FRESH,
            "cannot start at the beginning of its input: there are 3 files of it in /out",
            ("another folder in the sink", "--overwrite /out"),
        ),
    ],
)
def test_a_start_that_would_publish_rows_twice_is_refused_with_alternatives(
    traces: RunTraces, mode: StartMode, reason: str, commands: tuple[str, ...]
) -> None:
    refused = decide(traces, mode)

    assert isinstance(refused, Refusal)
    assert not refused.is_mismatch
    assert reason in refused.reason
    assert all(command in refused.reason for command in commands), refused.reason


def test_an_incompatible_checkpoint_is_refused_with_the_reasons() -> None:
    refused = decide(MISFIT, StartMode.AUTO)

    assert isinstance(refused, Refusal)
    assert refused.is_mismatch
    assert refused.reason.startswith("job 'counts' cannot continue from '/c/chk-7': it holds 'hourly'\n")
    assert "flykka savepoint check" in refused.reason
    assert "--fresh" in refused.reason


@pytest.mark.parametrize(
    "traces",
    [FINISHED, MISFIT],
)
def test_a_job_that_only_prints_rows_is_never_refused(traces: RunTraces) -> None:
    shown = replace(traces, folders=(), shows_only=True)

    assert isinstance(decide(shown, StartMode.AUTO), Start)


@pytest.mark.parametrize(
    ("traces", "notices"),
    [
        (FINISHED, ()),
        (replace(MISFIT, folders=NEW.folders), (f"'counts' starts at the beginning of its input: {MISFIT.mismatch}",)),
    ],
)
def test_an_invalid_run_record_does_not_block_a_job_without_output(traces: RunTraces, notices: tuple[str, ...]) -> None:
    uncounted = replace(traces, note_counts=False)

    assert decide(uncounted, StartMode.AUTO) == Start(notices=notices)


@pytest.mark.parametrize("traces", [replace(FINISHED, folders=WITH_ROWS.folders), MISFIT, WITH_ROWS])
def test_an_invalid_run_record_does_not_lead_to_duplicate_rows(traces: RunTraces) -> None:
    refused = decide(replace(traces, note_counts=False), StartMode.AUTO)

    assert isinstance(refused, Refusal)


@pytest.mark.parametrize(
    ("traces", "mode", "overwritten"),
    [
        (WITH_ROWS, StartMode.AUTO, ()),
        (MISFIT, StartMode.AUTO, ()),
        (LEFT_OFF, StartMode.FRESH, ()),
        (
            replace(WITH_ROWS, folders=(*WITH_ROWS.folders, FolderContents(path="/late", own=1))),
            StartMode.OVERWRITE,
            ("/late",),
        ),
    ],
)
def test_the_error_in_python_names_the_method_to_call(
    traces: RunTraces, mode: StartMode, overwritten: tuple[str, ...]
) -> None:
    refused = decide(traces, mode, overwritten, PYTHON)

    assert isinstance(refused, Refusal)
    assert "env.overwrite('/" in refused.reason
    assert "--" not in refused.reason


def test_a_fresh_job_without_former_output_reads_its_input_from_the_start() -> None:
    traces = replace(LEFT_OFF, folders=NEW.folders)

    assert decide(traces, StartMode.FRESH) == Start()
    assert decide(FINISHED, StartMode.FRESH) == Start()


def test_an_explicitly_named_checkpoint_is_used_in_every_case() -> None:
    assert decide(LEFT_OFF, StartMode.CHECKPOINT) == Start(restore_path="/c/chk-7")


def test_with_overwrite_the_output_is_deleted_and_the_job_starts_fresh() -> None:
    started = decide(LEFT_OFF, StartMode.OVERWRITE, ("/out",))

    assert started == Start(
        overwrites=("/out",), notices=("'counts' starts at the beginning of its input: deleting 3 files of it in /out",)
    )


def test_without_former_output_nothing_is_deleted() -> None:
    assert decide(NEW, StartMode.OVERWRITE, ("/out",)) == Start()


@pytest.mark.parametrize(
    ("traces", "overwritten", "reason"),
    [
        (
            WITH_ROWS,
            ("/ouch",),
            "'/ouch' is not a folder of a sink of job 'counts': they write to /out. Nothing was deleted",
        ),
        (replace(WITH_ROWS, folders=()), ("/out",), "no sink writes to a folder"),
        (
            replace(WITH_ROWS, folders=(*WITH_ROWS.folders, FolderContents(path="/late", own=1))),
            ("/out",),
            "1 file of it in /late, which would be published twice: name these folders too:"
            " --overwrite /out --overwrite /late. Nothing was deleted",
        ),
        (replace(WITH_ROWS, last_run=LastRunState.RUNS_HERE), ("/out",), "is running in this process"),
    ],
)
def test_overwrite_must_name_the_output_exactly_as_the_sink_does(
    traces: RunTraces, overwritten: tuple[str, ...], reason: str
) -> None:
    refused = decide(traces, StartMode.OVERWRITE, overwritten)

    assert isinstance(refused, Refusal)
    assert reason in refused.reason


def test_foreign_rows_in_the_output_folder_are_reported_and_do_not_block() -> None:
    folder = FolderContents(path="/out", others=(("orders", 12),), foreign=1, written_by=("clicks",))

    started = decide(replace(NEW, folders=(folder,)), StartMode.AUTO)

    assert started == Start(
        notices=(
            "job 'clicks' is writing to /out at the same time: readers see the rows of both",
            "/out contains 12 files of another job, 'orders': readers see the rows of both",
            "/out contains 1 file that no job has published, according to their names",
        )
    )
