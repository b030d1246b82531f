"""Exit codes of the command line, for scripts and CI."""

from __future__ import annotations

import os
import sys
import traceback

OK = 0
FAILED = 1
CANCELLED = 130
"""The exit code of a process ended by Ctrl-C, as in shells: 128 plus the number of SIGINT."""

DIFFERENT, UNREADABLE, BROKEN = 1, 2, 3
"""For commands on traces and simulations: a difference or violation, an unusable file, an internal error."""

EXIT_CODES = """exit codes:
  0    every job has finished or was stopped
  1    a job has failed, the app raised an error, or it executed no job
  2    the command line is wrong
  130  the jobs were cancelled (Ctrl-C twice, or once for batch jobs), or the app was
       interrupted
  An app that calls sys.exit(N) with N other than 0 ends with N.
"""


def fail(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code


def broken(what: str) -> int:
    traceback.print_exc()
    print(f"{what}: this is an internal error of flykka", file=sys.stderr)
    return BROKEN


def print_no_more() -> None:
    """Discard the output that Python flushes at exit, because the reader, for example `head`, has closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
