"""How the command line ends: what scripts and CI go by."""

from __future__ import annotations

OK = 0
FAILED = 1
USAGE = 2
CANCELLED = 130
"""As a shell has it for what was ended by Ctrl-C: 128 and the number of SIGINT."""

EXIT_CODES = """exit codes:
  0    every job has finished, or was stopped
  1    a job has failed, the app raised an error, or it made no job
  2    the command line is wrong
  130  the jobs were cancelled (Ctrl-C twice), or the app was interrupted
  An app that calls sys.exit(N) with N other than 0 ends with N.
"""
