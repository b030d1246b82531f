"""Decides how a job starts that may have run before: goes on, begins with its input, or is refused.

The same command, run again, must not publish a row twice. So a job goes on where its last run left off; where that run
has come to its end, or has left rows and nothing to go on from, it is refused, and told which command does what.
A pure function of what was found: nothing here looks at a file or a clock.
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
    """The commands, as they are typed in; `check` is that which tells whether a checkpoint fits, where there is one."""

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
    """The state of the last run of the jobs of this name."""

    NONE = auto()
    LEFT_OFF = auto()
    """It has not come to its end: its process was killed, or it has left a checkpoint behind."""
    ENDED = auto()
    """It has come to the end of its input; or to some end that nobody has noted, with nothing kept."""
    ENDED_WITHOUT_CHECKPOINT = auto()
    """It was cancelled or has failed, and has kept no checkpoint."""
    RUNS_HERE = auto()
    """It runs in this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderContents:
    """Counts of the files in the folder of a sink: of this job, of others by their names, and of no job at all.

    `written_by` are the names of other jobs that write into it at this moment.
    """

    path: str
    own: int = 0
    others: tuple[tuple[str, int], ...] = ()
    foreign: int = 0
    written_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTraces:
    """Remains of a job that it finds before it starts.

    `checkpoint` is the path to go on from, `described` the same in words, `misfit` why the job cannot go on from there.
    A job that `shows_only` keeps its rows nowhere.
    Where the note of the last run does not count, it keeps no job from starting that has no rows: it is of a temporary
    folder that nobody has asked for, or of a job that has finished in another run of a notebook's cell.
    """

    job_name: str
    last_run: LastRunState = LastRunState.NONE
    checkpoint: str | None = None
    described: str = ""
    misfit: str | None = None
    folders: tuple[FolderContents, ...] = ()
    shows_only: bool = False
    note_counts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The job starts, from `restore_path` or with its input; `overwrites` are folders whose own files go before."""

    restore_path: str | None = None
    overwrites: tuple[str, ...] = ()
    says: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The job does not start; `is_misfit`: because the checkpoint does not fit it."""

    reason: str
    is_misfit: bool = False


def last_run_state(run: JobRun | None, *, is_there: bool) -> LastRunState:
    """Read the note of a run; `is_there`: whether anything of the job is left below the checkpoint directory."""
    match run:
        case None:
            return LastRunState.NONE
        case JobRun(status=None):
            # Deleted is what has ended with nothing to keep: the process was gone before that could be noted.
            return LastRunState.LEFT_OFF if is_there else LastRunState.ENDED
        case JobRun(checkpoint_path=str()):
            return LastRunState.LEFT_OFF
        case JobRun(status=JobStatus.FINISHED):
            return LastRunState.ENDED
        case _:
            return LastRunState.ENDED_WITHOUT_CHECKPOINT


def decide(
    found: RunTraces, mode: StartMode, overwritten: tuple[str, ...] = (), commands: StartCommands = COMMAND_LINE
) -> Start | Refusal:
    """Decide how the job starts. `overwritten` are folders as `found` names them; a refusal is told with `commands`."""
    match mode:
        case StartMode.AUTO:
            decided = _automatic(found, commands)
        case StartMode.CHECKPOINT:
            decided = Start(restore_path=found.checkpoint)
        case StartMode.FRESH:
            decided = _fresh(found, commands)
        case StartMode.OVERWRITE:
            decided = _overwriting(found, overwritten, commands)
    if isinstance(decided, Refusal):
        return decided
    return Start(
        restore_path=decided.restore_path,
        overwrites=decided.overwrites,
        says=(*decided.says, *_others_in(found)),
    )


def _automatic(found: RunTraces, commands: StartCommands) -> Start | Refusal:
    job = repr(found.job_name)
    if found.checkpoint is not None and found.misfit is None:
        return Start(restore_path=found.checkpoint, says=(f"continuing {job} from {found.described}",))
    if found.shows_only or not (found.note_counts or _with_rows(found)):
        # Nothing is published twice, and nobody wants to be refused a look, or for a note that does not count.
        says = () if found.misfit is None else (f"{job} begins with its input: {found.misfit}",)
        return Start(says=says)
    if found.misfit is not None:
        return Refusal(is_misfit=True, reason=f"{found.misfit}\n{_misfit(found, commands)}")
    if found.last_run is LastRunState.ENDED:
        return Refusal(
            reason=f"job {job} has come to the end of its input already; run again, it would publish the same rows once"
            f" more{_where(found)}. {_choices(found, commands)}"
        )
    if _with_rows(found):
        return Refusal(
            reason=f"job {job} has no checkpoint to continue from, and has published rows{_where(found)}: begun again,"
            f" it would publish them once more. {_choices(found, commands)}"
        )
    if found.last_run is LastRunState.ENDED_WITHOUT_CHECKPOINT:
        return Start(says=(f"{job} begins with its input: its last run has kept no checkpoint",))
    return Start()


def _fresh(found: RunTraces, commands: StartCommands) -> Start | Refusal:
    if _with_rows(found):
        return Refusal(
            reason=f"job {found.job_name!r} cannot begin with its input again{_where(found)}: its rows would be there"
            f" twice. {_choices(found, commands, fresh=False)}"
        )
    return Start()


def _overwriting(found: RunTraces, overwritten: tuple[str, ...], commands: StartCommands) -> Start | Refusal:
    job, known = repr(found.job_name), {folder.path for folder in found.folders}
    if unknown := [path for path in overwritten if path not in known]:
        there = f"they write to {', '.join(sorted(known))}" if known else "none of them writes to a folder"
        return Refusal(reason=f"{unknown[0]!r} is no folder of a sink of job {job}: {there}. Nothing was deleted")
    if found.last_run is LastRunState.RUNS_HERE:
        return Refusal(reason=f"job {job} runs, in this process: what it has published is not deleted. Stop it first")
    left = tuple(folder for folder in _with_rows(found) if folder.path not in overwritten)
    if left:
        return Refusal(
            reason=f"job {job} has published rows elsewhere as well, {_counted(left)}, which would be there twice: name"
            f" these too: {commands.overwrite(overwritten + tuple(folder.path for folder in left))}. Nothing was"
            " deleted"
        )
    deleted = tuple(folder for folder in _with_rows(found) if folder.path in overwritten)
    says = tuple(f"{job} begins with its input: deleting {_counted((folder,))}" for folder in deleted)
    return Start(overwrites=tuple(folder.path for folder in deleted), says=says)


def _misfit(found: RunTraces, commands: StartCommands) -> str:
    choices = [f"to go on from another checkpoint: {commands.from_checkpoint}", *_from_the_input(found, commands)]
    if commands.check is not None:
        choices.insert(0, f"to see what fits: {commands.check}")
    return _sentence(choices)


def _choices(found: RunTraces, commands: StartCommands, *, fresh: bool = True) -> str:
    from_the_input = _from_the_input(found, commands, fresh=fresh)
    return _sentence([f"to go on from a checkpoint: {commands.from_checkpoint}", *from_the_input])


def _from_the_input(found: RunTraces, commands: StartCommands, *, fresh: bool = True) -> Iterator[str]:
    """Tell how to begin with the input; a start that is `fresh` already needs another folder only."""
    rows = tuple(folder.path for folder in _with_rows(found))
    how = [commands.fresh, "with another folder in the sink"] if fresh else ["another folder in the sink"]
    yield f"to begin with the input: {', '.join(how if rows else how[:1])}"
    if rows:
        yield f"to delete those files and begin with the input: {commands.overwrite(rows)}"


def _sentence(choices: list[str]) -> str:
    text = "; ".join(choices)
    return text[0].upper() + text[1:]


def _others_in(found: RunTraces) -> Iterator[str]:
    """Other jobs and other files in the folders of the sinks: their rows are read with those of the job."""
    for folder in found.folders:
        for name in folder.written_by:
            yield f"job {name!r} writes into {folder.path} at this moment too: readers see the rows of both"
        for name, files in folder.others:
            yield f"{folder.path} holds {_files(files)} of another job, {name!r}: readers see the rows of both"
        if folder.foreign:
            yield f"{folder.path} holds {_files(folder.foreign)} that no job has published, as far as their names tell"


def _with_rows(found: RunTraces) -> tuple[FolderContents, ...]:
    return tuple(folder for folder in found.folders if folder.own)


def _where(found: RunTraces) -> str:
    rows = _with_rows(found)
    be = "is" if rows and rows[0].own == 1 else "are"
    return f": there {be} {_counted(rows)}" if rows else ""


def _counted(folders: tuple[FolderContents, ...]) -> str:
    return " and ".join(f"{_files(folder.own)} of it in {folder.path}" for folder in folders)


def _files(number: int) -> str:
    return f"{number:,} {'file' if number == 1 else 'files'}"
