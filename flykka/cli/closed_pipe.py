"""When whoever reads what a command prints has enough, as `head` has."""

from __future__ import annotations

import os
import sys


def print_no_more() -> None:
    """What Python still flushes at its end goes nowhere, instead of failing there."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
