"""The arguments of `flykka run`: what they are called, what is said about them, and what is wrong with them."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import fields
from importlib.util import find_spec
from typing import Any

from flykka.api.launch import LaunchOptions
from flykka.cli.arguments import at_least_one, describe
from flykka.cli.exit_codes import EXIT_CODES
from flykka.cli.rest_options import add_rest_options, rest_settings
from flykka.cli.run.app import app_of
from flykka.cli.run.recovery_options import add_recovery_options
from flykka.messages.graph.job_graph import ExternalizedCheckpointRetention
from flykka.metrics.endpoint import checked_endpoint
from flykka.rest.settings import RestSettings
from flykka.runtime.durations import positive_duration_ms
from flykka.runtime.errors import DurationError
from flykka.spark_bridge.errors import MissingExtraError

_USAGE = "flykka run APP.py [OPTIONS] [ARGUMENT ...] [-- ARGUMENT ...]"

_DESCRIPTION = """\
Run an app: a Python script that makes jobs. It runs as with `python APP.py`, and
every job that it executes is shown: live where there is a terminal, else as plain
lines. At the end of each job there is a summary.

What is no option of flykka's is handed to the app; what looks like an option and
is meant for the app goes behind `--`.

An option given here has the last word: it wins over what the app says for its
environment as a whole (such as env.set_parallelism or env.set_checkpoint_dir).
What the app says of a single operator (such as stream.set_parallelism) stays.
"""

_EPILOG = f"""\
while it runs:
  Ctrl-C once stops: the jobs take a last checkpoint, publish what it holds and
  finish; the checkpoint is kept. With a savepoint directory the last one is a
  savepoint.
  Ctrl-C twice cancels, and deletes the checkpoints unless --retention keeps them.
  SIGTERM is as good as a Ctrl-C; SIGHUP only stops.

run again, the same command continues where the jobs left off, stopped or killed;
that needs a checkpoint folder that was named. A job that has come to the end of
its input, or whose rows are there without a checkpoint, is refused: no row is
published twice. --fresh and --overwrite say what else is wanted.

examples:
  flykka run delays.py
  flykka run delays.py --parallelism 4 --task-managers 2
  flykka run delays.py --checkpoint-dir /data/checkpoints --checkpoint-interval 10s
  flykka run delays.py --overwrite /data/delays
  flykka run delays.py --savepoint-dir /data/savepoints
  flykka run delays.py --from-savepoint /data/savepoints/savepoint-ab12cd-1f03a9c2-1
  flykka run delays.py --master 'local[4]' flights/ -- --airport JFK

{EXIT_CODES}"""

_SAID = "(default: what the app says"
"""The begin of what holds without an option."""
_STARTS = ("--from-checkpoint", "--from-savepoint", "-s", "--overwrite")
"""Options with a value that say where the first job starts."""
_FLAGS = ("--fresh", "--allow-non-restored-state", "-n")
_RETENTIONS = {retention.value.lower().replace("_", "-"): retention for retention in ExternalizedCheckpointRetention}


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe `flykka run`."""
    describe(parser, _DESCRIPTION, _EPILOG, usage=_USAGE, allow_abbrev=False)
    parser.set_defaults(run=_run, arguments=[], parser=parser)
    parser.add_argument("app", metavar="APP.py", help="the script")
    add_run_options(parser)


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a launch: its cluster, its jobs, and how they are watched."""
    _add_cluster(parser.add_argument_group("the cluster"))
    _add_jobs(parser.add_argument_group("the jobs"))
    _add_seeing(parser.add_argument_group("looking inside"))
    group = parser.add_argument_group("the web page and the REST interface (the extra `web`)")
    add_rest_options(group, f"{_SAID}, else 0)")
    group.add_argument("--no-rest", action="store_true", help="answer none, unless the app says so")
    _add_reporters(parser.add_argument_group("reporting (the extra `otel`)"))


def _add_cluster(group: argparse._ArgumentGroup) -> None:
    number: dict[str, Any] = {"metavar": "N", "type": at_least_one}
    group.add_argument("--master", metavar="URL", help=f"where Spark runs, such as local[4] {_SAID}, else local[*])")
    group.add_argument("--task-managers", **number, help=f"how many TaskManagers {_SAID}, else 1)")
    what = f"how many TaskManagers there may be while tasks wait for slots {_SAID}, else no more than the others)"
    group.add_argument("--max-task-managers", **number, help=what)
    _add_duration(
        group, "--slot-request-timeout", "DURATION", f"how long a task may wait for its slot {_SAID}, else 5min)"
    )
    what = f"how many slots each TaskManager has {_SAID}, else as many as its first job needs)"
    group.add_argument("--slots", dest="slots_per_task_manager", **number, help=what)
    what = (
        "where the jobs are kept, so that the same command goes on with them after this process was killed: a"
        " folder of this machine, or zookeeper://HOST:PORT/PATH?storage_dir=DIR (default: what the app says, else in"
        " memory)"
    )
    group.add_argument("--high-availability", metavar="DIR|ZOOKEEPER", help=what)


def _add_jobs(group: argparse._ArgumentGroup) -> None:
    what = f"of every operator that has none of its own {_SAID}, else 1)"
    group.add_argument("--parallelism", metavar="N", type=at_least_one, help=what)
    what = (
        f"where checkpoints are kept, a folder or an address such as s3://bucket/dir {_SAID}, else a temporary folder)"
    )
    group.add_argument("--checkpoint-dir", dest="checkpoint_directory", metavar="DIR", help=what)
    what = f"take a checkpoint so often: 10s, 500ms, 5min {_SAID}, else only at the end)"
    _add_duration(group, "--checkpoint-interval", "TIME", what)
    _add_start(group)
    what = (
        "where savepoints go, a folder or an address; with it Ctrl-C stops with a savepoint there"
        f" {_SAID}, else Ctrl-C stops with a checkpoint)"
    )
    group.add_argument("--savepoint-dir", dest="savepoint_directory", metavar="DIR", help=what)
    what = (
        "where a job that has ended leaves what `flykka history` shows"
        f" {_SAID}, else archives/ in a checkpoint folder that was named)"
    )
    group.add_argument("--archive-dir", dest="archive_directory", metavar="DIR", help=what)
    what = (
        "which jobs keep their last checkpoint, besides those that are stopped: no-externalized-checkpoints:"
        " none; delete-on-cancellation: those that fail; retain-on-cancellation: those that are cancelled too"
        f" {_SAID}, else delete-on-cancellation)"
    )
    group.add_argument("--retention", metavar="WHICH", choices=sorted(_RETENTIONS), help=what)
    add_recovery_options(group, _SAID)


def _add_start(group: argparse._ArgumentGroup) -> None:
    what = (
        "let the first job continue where its last run left off (auto), from the newest checkpoint of any job in"
        f" the checkpoint folder (latest), or from this one {_SAID}, else auto)"
    )
    group.add_argument("--from-checkpoint", metavar="auto|latest|PATH", help=what)
    what = (
        "let all jobs begin with their input, whatever was kept; refused where the folder of a sink holds rows of"
        " the job (default: they continue)"
    )
    group.add_argument("--fresh", action="store_true", help=what)
    what = (
        "delete what the first job has published in this folder of a sink, and let it begin with its input; may be"
        " given several times (default: nothing is deleted)"
    )
    group.add_argument("--overwrite", metavar="FOLDER", action="append", default=[], help=what)
    what = (
        "let the first job start from this savepoint, wherever its folder was moved to (default: as"
        " --from-checkpoint says)"
    )
    group.add_argument("-s", "--from-savepoint", metavar="PATH", help=what)
    what = "with --from-savepoint: drop state of operators that the job does not have (default: the job is refused)"
    group.add_argument("-n", "--allow-non-restored-state", action="store_true", help=what)


def _add_seeing(group: argparse._ArgumentGroup) -> None:
    what = (
        "write down what every actor does, for `flykka trace`; a second environment of the app has FILE-2 and so"
        " on (default: only the last turns before a failure)"
    )
    group.add_argument("--record", metavar="FILE", help=what)
    what = (
        "with --record: write the last turns only, at least N of them, when the app ends or a job fails; the"
        " file replays from where it begins (default: every turn, as it happens)"
    )
    group.add_argument("--ring", metavar="N", type=at_least_one, help=what)
    what = (
        "with --record: the file grows no further; the recording ends there, which it says, and the jobs go on"
        " (default: without end)"
    )
    group.add_argument("--max-bytes", metavar="N", type=at_least_one, help=what)
    group.add_argument("--verbose", action="store_true", help="show errors with all their frames and Spark's traces")


def _add_reporters(group: argparse._ArgumentGroup) -> None:
    what = (
        "send metrics, checkpoints and restarts to this receiver of OpenTelemetry's protocol by HTTP, as in"
        f" http://localhost:4318 {_SAID}, else nowhere)"
    )
    group.add_argument("--otel", metavar="ENDPOINT", help=what)


def _add_duration(group: argparse._ArgumentGroup, option: str, metavar: str, what: str) -> None:
    name = option.removeprefix("--").replace("-", "_")
    group.add_argument(option, dest=f"{name}_ms", metavar=metavar, type=_duration_ms, help=what)


def _run(options: argparse.Namespace) -> int:
    app, launch = app_of(options), launch_options(options)
    # What follows takes a second to load, and a wrong command line should not have to wait for it.
    from flykka.cli.run.execution import run

    return run(
        app,
        launch,
        continue_with=lambda *start: shlex.join(continuing(options.command_line, *start)),
        verbose=options.verbose,
    )


def launch_options(options: argparse.Namespace) -> LaunchOptions:
    """The options of a launch. Ends the command with a usage error where they do not fit."""
    if (problem := _conflict(options)) is not None:
        options.parser.error(problem)
    try:
        rest = _rest(options)
    except (ValueError, MissingExtraError) as refused:
        options.parser.error(str(refused))
    said: dict[str, Any] = {field.name: getattr(options, field.name, None) for field in fields(LaunchOptions)}
    said |= {"retention": _RETENTIONS.get(options.retention), "overwrite": tuple(options.overwrite)}
    said |= {"rest": rest, "offers_rest": not options.no_rest and find_spec("uvicorn") is not None}
    return LaunchOptions(**said)


def _conflict(options: argparse.Namespace) -> str | None:
    """Tell what is wrong with the options together; None where they fit."""
    starts = ("from_checkpoint", "from_savepoint", "fresh", "overwrite")
    given = [f"--{name.replace('_', '-')}" for name in starts if getattr(options, name) not in (None, False, [])]
    if len(given) > 1:
        return f"a job starts from one place: give {given[0]} or {given[1]}, not both"
    if options.ring is not None and options.record is None:
        return "--ring says how much of a recording is kept: name its file, --record FILE"
    if options.max_bytes is not None and options.record is None:
        return "--max-bytes says how large a recording may be: name its file, --record FILE"
    if options.max_bytes is not None and options.ring is not None:
        return "--ring bounds a recording already: give --ring or --max-bytes, not both"
    if (wrong := _wrong_endpoint(options)) is not None:
        return wrong
    if options.allow_non_restored_state and options.from_savepoint is None:
        return "--allow-non-restored-state needs a savepoint whose state may be dropped: --from-savepoint"
    return None


def continuing(command_line: Sequence[str], *start: str) -> list[str]:
    """The command line that continues what this one has begun: the same, but for the options that say where to start.

    `start` are those that are needed; without any a job continues where it left off.
    """
    words = list(command_line)
    theirs = words[words.index("--") :] if "--" in words else []
    return ["flykka", *_without_start(words[: len(words) - len(theirs)]), *start, *theirs]


def _without_start(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    skips = False
    for word in words:
        if skips:
            skips = False
        elif word in _STARTS:
            skips = True
        elif word not in _FLAGS and not word.startswith(tuple(f"{option}=" for option in _STARTS)):
            kept.append(word)
    return kept


def _duration_ms(text: str) -> int:
    try:
        return positive_duration_ms(text, "the length of time")
    except DurationError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from wrong


def _rest(options: argparse.Namespace) -> RestSettings | None:
    """The REST interface that was asked for. Raises `ValueError` or `MissingExtraError`."""
    if options.rest is not None and options.no_rest:
        raise ValueError("--rest and --no-rest are opposites: give one of them")
    return rest_settings(options, "--rest")


def _wrong_endpoint(options: argparse.Namespace) -> str | None:
    if options.otel is not None:
        try:
            checked_endpoint(options.otel)
        except ValueError as refused:
            return str(refused)
    return None
