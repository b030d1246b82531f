"""`flykka why`: diagnoses a job of a running flykka, or of a replayed recording. Does not load Spark."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import add_import, describe
from flykka.cli.exit_codes import OK
from flykka.cli.remote.address import add_address, add_job, ask_about_job
from flykka.cli.trace.trace_file import import_modules, run_on_trace
from flykka.errors import TraceSelectionError
from flykka.runtime.durations import positive_duration_ms
from flykka.runtime.errors import DurationError, ReplaySessionError
from flykka.runtime.trace.file.reader import TraceReader

_DESCRIPTION = """\
Diagnose why a job makes no progress. Asks the process that runs it, from another
terminal: what each actor is waiting for, since when, and the progress of stages. The
first line is the answer. It works even if an actor is stuck: actors that do not
answer are listed as such.

With --trace a recorded run is diagnosed, at its end or after a turn.
"""

_EPILOG = """\
examples:
  flykka why                          the only running job
  flykka why prices                   one of several, by its name or the beginning of its id
  flykka why --address host:8081
  flykka why --trace run.trace --turn 142

exit codes:
  0  there is an answer
  1  no answer, there is no such job, or there are several and none was specified
  2  there is no such file, it is not a trace, or there is no such turn
  3  an internal error of this command
"""


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, _EPILOG)
    add_job(parser)
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        default="2s",
        help="the time limit for the answer of each actor (default: %(default)s)",
    )
    add_address(parser)
    parser.add_argument(
        "--trace", metavar="FILE", help="diagnose a recorded run: a file, or an address such as s3://..."
    )
    parser.add_argument(
        "--turn", metavar="N", type=int, help="diagnose after this turn of the recorded run, not at its end"
    )
    add_import(parser)
    parser.set_defaults(run=why, parser=parser)


def why(arguments: argparse.Namespace) -> int:
    if arguments.turn is not None and arguments.trace is None:
        arguments.parser.error("--turn N needs --trace FILE")
    return _why_running(arguments) if arguments.trace is None else _why_recorded(arguments)


def _why_running(arguments: argparse.Namespace) -> int:
    try:
        timeout_ms = positive_duration_ms(arguments.timeout, "time for an answer")
    except DurationError as wrong:
        arguments.parser.error(str(wrong))
    return ask_about_job("flykka why", arguments, lambda client, job: client.why(job.job_id, timeout_ms))


def _why_recorded(arguments: argparse.Namespace) -> int:
    # Imported here because the import takes a second, which `--help` should not wait for.
    from flykka.traces.diagnosis import diagnose_recorded

    def diagnose_trace(trace: TraceReader) -> int:
        import_modules(arguments.modules)
        try:
            explained = diagnose_recorded(trace, arguments.turn, arguments.job, modules=arguments.modules)
        except ReplaySessionError as refused:
            raise TraceSelectionError(str(refused)) from refused
        print(explained)
        return OK

    return run_on_trace("flykka why", arguments.trace, diagnose_trace)
