"""Decides how a job starts that may have run before: it continues, starts at the beginning, or is refused.

Running the same command again must not publish a row twice. Therefore a job continues where its last run stopped. If
that run has finished, or left output but no checkpoint, the job is refused with a list of possible commands. The
decision is a pure function of the collected traces: nothing here reads files or clocks.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from flykka.client.start_settings import StartMode
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobRun


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCommands:
    """The commands that the user can type. `check`, if set, shows whether a checkpoint fits."""

    from_checkpoint: str
    fresh: str
    overwrite: Callable[[Sequence[str]], str]
    check: str | None = None


def _options(folders: Sequence[str]) -> str:
    return " ".join(f"--overwrite {shlex.quote(folder)}" for folder in folders)


def _setter(folders: Sequence[str]) -> str:
    return f"env.overwrite({', '.join(map(repr, folders))})"


COMMAND_LINE = StartCommands(
    from_checkpoint="--from-checkpoint PATH",
    fresh="--fresh",
    overwrite=_options,
    check="`flykka savepoint check PATH APP.py`",
)
PYTHON = StartCommands(
    from_checkpoint="env.from_checkpoint(PATH)", fresh="env.from_checkpoint(None)", overwrite=_setter
)


class LastRunState(Enum):
    NONE = auto()
    LEFT_OFF = auto()
    """The job did not end: its process was killed, or it left a checkpoint."""
    ENDED = auto()
    """The job finished its input, or it ended without a record or any files."""
    ENDED_WITHOUT_CHECKPOINT = auto()
    RUNS_HERE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderContents:
    """The number of files in a sink's folder: of this job, of other jobs by name, and of no job.

    `written_by` are the names of other jobs that are writing to the folder now.
    """

    path: str
    own: int = 0
    others: tuple[tuple[str, int], ...] = ()
    foreign: int = 0
    written_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTraces:
    """The traces of earlier runs that a job finds before it starts.

    `checkpoint` is the path to continue from, and `mismatch` the reason why the job cannot continue from it. The output
    of a job that `shows_only` is not stored.

    If `note_counts` is False, the record of the last run does not prevent a job without output from starting. That
    record is in a temporary folder that the user did not choose, or belongs to a job that finished in another execution
    of a notebook cell.
    """

    job_name: str
    last_run: LastRunState = LastRunState.NONE
    checkpoint: str | None = None
    description: str = ""
    mismatch: str | None = None
    folders: tuple[FolderContents, ...] = ()
    shows_only: bool = False
    note_counts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The decision to start from `restore_path` or the beginning. The job's files in `overwrites` are deleted first."""

    restore_path: str | None = None
    overwrites: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The decision to refuse the job. `is_mismatch` is True if the checkpoint does not fit it."""

    reason: str
    is_mismatch: bool = False


def last_run_state(run: JobRun | None, *, is_there: bool) -> LastRunState:
    """Evaluate the record of a run. `is_there` is True if the checkpoint directory contains files of the job."""
    match run:
        case None:
            return LastRunState.NONE
        case JobRun(status=None):
            # The files were deleted because the job ended without retaining any. The process died before it recorded
            # the end.
            return LastRunState.LEFT_OFF if is_there else LastRunState.ENDED
        case JobRun(checkpoint_path=str()):
            return LastRunState.LEFT_OFF
        case JobRun(status=JobStatus.FINISHED):
            return LastRunState.ENDED
        case _:
            return LastRunState.ENDED_WITHOUT_CHECKPOINT


def decide(
    traces: RunTraces, mode: StartMode, overwritten: tuple[str, ...] = (), commands: StartCommands = COMMAND_LINE
) -> Start | Refusal:
    """Decide how the job starts. `overwritten` are folders in `traces`. A refusal lists `commands`."""
    match mode:
        case StartMode.AUTO:
            decided = _automatic(traces, commands)
        case StartMode.CHECKPOINT:
            decided = Start(restore_path=traces.checkpoint)
        case StartMode.FRESH:
            decided = _fresh(traces, commands)
        case StartMode.OVERWRITE:
            decided = _overwriting(traces, overwritten, commands)
    if isinstance(decided, Refusal):
        return decided
    return Start(
        restore_path=decided.restore_path,
        overwrites=decided.overwrites,
        notices=(*decided.notices, *_foreign_output(traces)),
    )


def _automatic(traces: RunTraces, commands: StartCommands) -> Start | Refusal:
    job = repr(traces.job_name)
    if traces.checkpoint is not None and traces.mismatch is None:
        return Start(restore_path=traces.checkpoint, notices=(f"continuing {job} from {traces.description}",))
    if traces.shows_only or not (traces.note_counts or _with_rows(traces)):
        # Nothing would be published twice, so there is no reason to refuse.
        notices = () if traces.mismatch is None else (f"{job} starts at the beginning of its input: {traces.mismatch}",)
        return Start(notices=notices)
    if traces.mismatch is not None:
        return Refusal(is_mismatch=True, reason=f"{traces.mismatch}\n{_mismatch(traces, commands)}")
    if traces.last_run is LastRunState.ENDED:
        return Refusal(
            reason=f"job {job} has already reached the end of its input; run again, it would publish the same rows once"
            f" more{_folders_text(traces)}. {_choices(traces, commands)}"
        )
    if _with_rows(traces):
        return Refusal(
            reason=f"job {job} has no checkpoint to continue from, but has published rows{_folders_text(traces)}: run"
            f" again, it would publish them once more. {_choices(traces, commands)}"
        )
    if traces.last_run is LastRunState.ENDED_WITHOUT_CHECKPOINT:
        return Start(notices=(f"{job} starts at the beginning of its input: its last run retained no checkpoint",))
    return Start()


def _fresh(traces: RunTraces, commands: StartCommands) -> Start | Refusal:
    if _with_rows(traces):
        return Refusal(
            reason=f"job {traces.job_name!r} cannot start at the beginning of its input{_folders_text(traces)}: its"
            f" rows would be published twice. {_choices(traces, commands, fresh=False)}"
        )
    return Start()


def _overwriting(traces: RunTraces, overwritten: tuple[str, ...], commands: StartCommands) -> Start | Refusal:
    job, paths = repr(traces.job_name), {folder.path for folder in traces.folders}
    if unknown := [path for path in overwritten if path not in paths]:
        there = f"they write to {', '.join(sorted(paths))}" if paths else "no sink writes to a folder"
        return Refusal(reason=f"{unknown[0]!r} is not a folder of a sink of job {job}: {there}. Nothing was deleted")
    if traces.last_run is LastRunState.RUNS_HERE:
        return Refusal(reason=f"job {job} is running in this process: its output is not deleted. Stop it first")
    others = tuple(folder for folder in _with_rows(traces) if folder.path not in overwritten)
    if others:
        return Refusal(
            reason=f"job {job} has also published rows elsewhere, {_counts_text(others)}, which would be published"
            " twice: name these folders too:"
            f" {commands.overwrite(overwritten + tuple(folder.path for folder in others))}. Nothing was deleted"
        )
    deleted = tuple(folder for folder in _with_rows(traces) if folder.path in overwritten)
    notices = tuple(
        f"{job} starts at the beginning of its input: deleting {_counts_text((folder,))}" for folder in deleted
    )
    return Start(overwrites=tuple(folder.path for folder in deleted), notices=notices)


def _mismatch(traces: RunTraces, commands: StartCommands) -> str:
    choices = [f"to continue from another checkpoint: {commands.from_checkpoint}", *_restart_choices(traces, commands)]
    if commands.check is not None:
        choices.insert(0, f"to check which state fits: {commands.check}")
    return _sentence(choices)


def _choices(traces: RunTraces, commands: StartCommands, *, fresh: bool = True) -> str:
    from_the_input = _restart_choices(traces, commands, fresh=fresh)
    return _sentence([f"to continue from a checkpoint: {commands.from_checkpoint}", *from_the_input])


def _restart_choices(traces: RunTraces, commands: StartCommands, *, fresh: bool = True) -> Iterator[str]:
    """Yield the ways to start at the beginning. If a `fresh` start was refused, the job needs another folder."""
    rows = tuple(folder.path for folder in _with_rows(traces))
    how = [commands.fresh, "with another folder in the sink"] if fresh else ["another folder in the sink"]
    yield f"to start at the beginning of the input: {', '.join(how if rows else how[:1])}"
    if rows:
        yield f"to delete those files and start at the beginning of the input: {commands.overwrite(rows)}"


def _sentence(choices: list[str]) -> str:
    text = "; ".join(choices)
    return text[0].upper() + text[1:]


def _foreign_output(traces: RunTraces) -> Iterator[str]:
    """Yield warnings about other jobs and files in the sinks' folders, whose rows are read together with the output."""
    for folder in traces.folders:
        for name in folder.written_by:
            yield f"job {name!r} is writing to {folder.path} at the same time: readers see the rows of both"
        for name, files in folder.others:
            yield f"{folder.path} contains {_files(files)} of another job, {name!r}: readers see the rows of both"
        if folder.foreign:
            yield (
                f"{folder.path} contains {_files(folder.foreign)} that no job has published, according to their names"
            )


def _with_rows(traces: RunTraces) -> tuple[FolderContents, ...]:
    return tuple(folder for folder in traces.folders if folder.own)


def _folders_text(traces: RunTraces) -> str:
    rows = _with_rows(traces)
    be = "is" if rows and rows[0].own == 1 else "are"
    return f": there {be} {_counts_text(rows)}" if rows else ""


def _counts_text(folders: tuple[FolderContents, ...]) -> str:
    return " and ".join(f"{_files(folder.own)} of it in {folder.path}" for folder in folders)


def _files(number: int) -> str:
    return f"{number:,} {'file' if number == 1 else 'files'}"
