"""`flykka why`: asks a running flykka, or replays a recorded run and asks its actors. Loads no Spark."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import add_import, describe
from flykka.cli.exit_codes import OK
from flykka.cli.remote.address import add_address, add_job, asked
from flykka.cli.trace.trace_file import import_modules, run_on_trace
from flykka.errors import TraceSelectionError
from flykka.runtime.durations import positive_duration_ms
from flykka.runtime.errors import DurationError, ReplaySessionError
from flykka.runtime.trace.file.reader import TraceReader

_DESCRIPTION = """\
Why does a job not go on? Asks the process that runs it, from another terminal:
who waits for whom, since when, and how far stages are. The first line is the
answer. It is there also when an actor is stuck: who does not answer is told as
such.

With --trace the same is told of a recorded run, at its end or behind a turn.
"""

_EPILOG = """\
examples:
  flykka why                          the job that runs
  flykka why prices                   one of several, by its name or the begin of its id
  flykka why --address host:8081
  flykka why --trace run.trace --turn 142

exit codes:
  0  there is an answer
  1  nobody answers, there is no such job, or there are several and none was named
  2  the trace is not there or no trace, or there is no such turn
  3  an error of this command itself
"""


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, _EPILOG)
    add_job(parser)
    parser.add_argument(
        "--timeout", metavar="TIME", default="2s", help="how long each actor has for its answer (default: %(default)s)"
    )
    add_address(parser)
    parser.add_argument("--trace", metavar="FILE", help="a recorded run instead; an address such as s3://... too")
    parser.add_argument("--turn", metavar="N", type=int, help="behind this turn of the recorded run, not at its end")
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
    return asked("flykka why", arguments, lambda client, job: client.why(job.job_id, timeout_ms))


def _why_recorded(arguments: argparse.Namespace) -> int:
    # The actors take a second to load, which `--help` should not have to wait for.
    from flykka.traces.diagnosis import diagnose_recorded

    def tell(trace: TraceReader) -> int:
        import_modules(arguments.modules)
        try:
            explained = diagnose_recorded(trace, arguments.turn, arguments.job, modules=arguments.modules)
        except ReplaySessionError as refused:
            raise TraceSelectionError(str(refused)) from refused
        print(explained)
        return OK

    return run_on_trace("flykka why", arguments.trace, tell)
