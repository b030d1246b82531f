"""What `flykka debug` does: opens a trace, goes to where one wants to begin, and hands over to the prompt."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from flykka.cli.debugger import Debugger
from flykka.cli.trace_file import DIFFERENT, OK, UNREADABLE, import_modules, run_on_trace
from flykka.replay.replayer import Replayer
from flykka.runtime.errors import ReplaySessionError
from flykka.runtime.replay.session.breakpoint import Breakpoint

if TYPE_CHECKING:
    import argparse

    from flykka.runtime.trace.file.reader import TraceReader


def debug(arguments: argparse.Namespace) -> int:
    """`flykka debug`; returns the exit code."""
    return run_on_trace("flykka debug", arguments.file, lambda trace: _debug(trace, arguments))


def _debug(trace: TraceReader, arguments: argparse.Namespace) -> int:
    import_modules(arguments.modules)
    session = Replayer().session(trace)
    try:
        breakpoints = [Breakpoint.parse(text) for text in arguments.breakpoints]
        if arguments.until is not None:
            session.at(arguments.until)
    except ReplaySessionError as refusal:
        print(f"flykka debug: {refusal}", file=sys.stderr)
        return UNREADABLE
    debugger = Debugger(session, breakpoints)
    debugger.begin()
    debugger.run()
    return DIFFERENT if debugger.has_diverged else OK
