"""Exit codes of the command line, for scripts and CI."""

from __future__ import annotations

import os
import sys
import traceback

OK = 0
FAILED = 1
CANCELLED = 130
"""As a shell has it for what was ended by Ctrl-C: 128 and the number of SIGINT."""

DIFFERENT, UNREADABLE, BROKEN = 1, 2, 3
"""Of commands on recorded and simulated runs: something is not as it should be (a replay has diverged, a law is broken,
two runs are not the same); a file cannot be read or written; an error of the command itself."""

EXIT_CODES = """exit codes:
  0    every job has finished, or was stopped
  1    a job has failed, the app raised an error, or it made no job
  2    the command line is wrong
  130  the jobs were cancelled (Ctrl-C twice), or the app was interrupted
  An app that calls sys.exit(N) with N other than 0 ends with N.
"""


def fail(text: str, code: int) -> int:
    """Print on stderr why a command is not done; its exit code."""
    print(text, file=sys.stderr)
    return code


def broken(what: str) -> int:
    """Print the exception that is being handled as an error of flykka's own; the exit code for it."""
    traceback.print_exc()
    print(f"{what}: this is an error of flykka's own", file=sys.stderr)
    return BROKEN


def print_no_more() -> None:
    """Have what Python still flushes at its end go nowhere: the reader has enough, as `head` has."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
