"""`flykka run`: an app from its first line to the exit code. With it everything is loaded, Spark included."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from rich.console import Console as RichConsole

from flykka.api.launch import LaunchOptions, launched
from flykka.cli.exit_codes import CANCELLED, FAILED, OK
from flykka.cli.run.app import App
from flykka.cli.run.app_run import AppRun, Continue, NoMoreJobsError
from flykka.cli.run.interrupts import Wish
from flykka.console.live import can_be_live
from flykka.console.output import lasting_output
from flykka.errors import JobExecutionError

_STDERR = 2


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The end of an app: its exit code, and the last text for stderr."""

    code: int
    last_words: str = ""


def run(app: App, options: LaunchOptions, *, continue_with: Continue, verbose: bool) -> int:
    """Run the app, show its jobs, say what came of it; the exit code."""
    output = RichConsole(force_jupyter=False)
    app_run = AppRun(options, output, continue_with)
    with lasting_output(app_run.interrupts.asked):
        outcome = _outcome(app, app_run, output, verbose=verbose)
        # Only now: whatever was to be said by others has been said.
        if outcome.last_words:
            print(outcome.last_words, file=sys.stderr, flush=True)
    return outcome.code


def _outcome(app: App, app_run: AppRun, output: RichConsole, *, verbose: bool) -> _Outcome:
    with ExitStack() as last_first:
        if can_be_live(output) and sys.stderr.isatty():
            last_first.enter_context(diverted_stderr(app_run.say))
        last_first.enter_context(launched(app_run))
        last_first.enter_context(app_run.interrupts)
        last_first.callback(app_run.close)
        outcome = _verdict(app, app_run, _raised(app, app_run), verbose=verbose)
        # What was stopped is gone on with by the same command.
        app_run.has_ended_in_order = outcome.code == OK and app_run.interrupts.wish is Wish.GO_ON
    return outcome


def _raised(app: App, app_run: AppRun) -> BaseException | None:
    """Return the error of the app when all of its jobs have ended, unless one of them is the cause."""
    left: SystemExit | None = None
    try:
        try:
            app.run()
        except SystemExit as said:
            left = said
        if left is None or _left_with(left)[0] == OK:
            app_run.wait()
    except BaseException as raised:  # noqa: BLE001 - whatever it is, it is the app's, and told with the exit code
        return raised
    return left


def _verdict(app: App, app_run: AppRun, raised: BaseException | None, *, verbose: bool) -> _Outcome:
    wish = app_run.interrupts.wish
    match raised:
        case NoMoreJobsError():
            return _Outcome(OK if wish is Wish.STOP else CANCELLED)
        case KeyboardInterrupt():
            return _Outcome(CANCELLED, "flykka: interrupted")
        case JobExecutionError() if wish is Wish.CANCEL:
            return _Outcome(CANCELLED)
        case None | SystemExit():
            return _ended(app, app_run, raised, verbose=verbose)
        case _:
            return _Outcome(FAILED, _explained(app, raised, verbose=verbose))


def _ended(app: App, app_run: AppRun, left_with: SystemExit | None, *, verbose: bool) -> _Outcome:
    """The app has come to its end by itself: what did its jobs come to?"""
    if app_run.interrupts.wish is Wish.CANCEL:
        return _Outcome(CANCELLED)
    code, words = _left_with(left_with)
    if code != OK:
        return _Outcome(code, words)
    if failures := app_run.failures():
        return _Outcome(FAILED, "\n".join(_explained(app, failure, verbose=verbose) for failure in failures))
    if app_run.has_jobs() or not app.needs_jobs:
        return _Outcome(OK)
    if forgotten := app_run.forgotten_operators():
        return _Outcome(FAILED, f"flykka: {app.path} defined {forgotten} operators but never called execute()")
    if left_with is not None:
        return _Outcome(OK)
    return _Outcome(
        FAILED,
        f"flykka: {app.path} made no job: an app gets an environment from"
        " StreamExecutionEnvironment.get_execution_environment(), defines operators in it and calls its execute()",
    )


def _explained(app: App, raised: BaseException, *, verbose: bool) -> str:
    """The text of an error; with `verbose`, behind the stack of where it happened."""
    there = raised.cause.stack_trace if verbose and isinstance(raised, JobExecutionError) else ""
    return "\n".join(text for text in (there.rstrip(), app.explained(raised, whole=verbose)) if text)


def _left_with(left_with: SystemExit | None) -> tuple[int, str]:
    """As Python does it: a number is the code, nothing is success, and anything else is said, with code 1."""
    match None if left_with is None else left_with.code:
        case None:
            return OK, ""
        case int(code):
            return code, ""
        case said:
            return FAILED, str(said)


@contextmanager
def diverted_stderr(say: Callable[[str], object]) -> Iterator[None]:
    """Hand every line that this process or a child writes on stderr to `say`, until the end of the `with`.

    A child that outlives it goes on writing into the pipe, which is not read then: it gets an error, and no signal.
    """
    sys.stderr.flush()
    original = os.dup(_STDERR)
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR)
    os.close(writing)
    woken, wake = os.pipe()
    pump = threading.Thread(target=_pump, args=(reading, woken, say), name="stderr-lines", daemon=True)
    pump.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(original, _STDERR)
        os.close(wake)
        pump.join()
        for descriptor in (original, reading, woken):
            os.close(descriptor)


def _pump(reading: int, woken: int, say: Callable[[str], object]) -> None:
    rest = b""
    ended = False
    while not ended:
        ready, _, _ = select.select([reading, woken], [], [])
        # What was written before the end is still said.
        ended = reading not in ready
        read = b"" if ended else os.read(reading, 65_536)
        ended = ended or not read
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            say(line.decode(errors="replace"))
    if rest:
        say(rest.decode(errors="replace"))
