"""An app: a Python script that is run as `python` runs it, and whose errors are told without our own frames."""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from traceback import FrameSummary, StackSummary, TracebackException

import flykka
from flykka.errors import FlykkaError
from flykka.runtime.secrets import masked

_OURS = str(Path(flykka.__file__).parent)
_MACHINERY = ("/pyspark/", "/py4j/")
_NO_SESSION = """
flykka: there is no Spark session yet: get_execution_environment(...) makes it. Put this line behind that, or into a
function that is called behind it. A UDF may stay where it is when its return type is a type and no text, as in
F.udf(function, LongType())."""


class App:
    needs_jobs = True
    """True if it has done nothing where it has run no job."""

    def __init__(self, path: str, arguments: Sequence[str] = ()) -> None:
        self.path = path
        self.arguments = tuple(arguments)

    def problem(self) -> str | None:
        """Tell why it cannot be run at all; None where it can."""
        path = Path(self.path)
        if path.is_dir():
            return f"{self.path} is a folder: name the Python file of the app"
        if not path.exists():
            return f"there is no file {self.path}"
        try:
            path.open("rb").close()
        except OSError as refused:
            return f"{self.path} cannot be read: {refused.strerror}"
        return None

    def run(self) -> None:
        """Run it as `__main__`, its folder first on the path. What it raises is raised, SystemExit too."""
        before = list(sys.argv), list(sys.path)
        sys.argv[:] = [self.path, *self.arguments]
        sys.path.insert(0, str(Path(self.path).resolve().parent))
        try:
            runpy.run_path(self.path, run_name="__main__")
        finally:
            sys.argv[:], sys.path[:] = before

    def explained(self, raised: BaseException, *, whole: bool = False) -> str:
        """Return the text for an error of the app, the error itself last.

        One of flykka's own is told with the line of the app that it came from, any other with its traceback, in which
        the frames of flykka and of what drives Spark are left out unless the `whole` is wanted.
        """
        return masked(self._explained(raised, whole)) + ("" if is_ours(raised) and not whole else _hint(raised))

    def _explained(self, raised: BaseException, whole: bool) -> str:
        if whole:
            _tell_all(raised)
            return "".join(TracebackException.from_exception(raised).format()).rstrip()
        told = TracebackException.from_exception(raised)
        if not is_ours(raised):
            self._leave_out(told)
            return "".join(told.format()).rstrip()
        frames = self._of_the_app(told.stack)
        where = f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}\n" if frames else ""
        return f"{where}flykka: {type(raised).__name__}: {raised}"

    def _leave_out(self, told: TracebackException) -> None:
        told.stack = StackSummary.from_list(self._of_the_app(told.stack))
        for before in (told.__cause__, told.__context__):
            if before is not None:
                self._leave_out(before)

    def _of_the_app(self, stack: StackSummary) -> list[FrameSummary]:
        """The frames from the app's first one on, without those that are not its author's concern."""
        numbers = (number for number, frame in enumerate(stack) if frame.filename == self.path)
        return [frame for frame in stack[next(numbers, 0) :] if not _is_machinery(frame.filename)]


def app_of(options: argparse.Namespace) -> App:
    """The app that a command line names. Ends the command with a usage error where it cannot be run at all."""
    app = App(options.app, options.arguments)
    if (problem := app.problem()) is not None:
        options.parser.error(problem)
    return app


def is_ours(raised: BaseException) -> bool:
    """True if an error is one of flykka's: its text was written for the reader, and says what to do."""
    return isinstance(raised, FlykkaError) or type(raised).__module__.split(".")[0] == "flykka"


def _hint(raised: BaseException) -> str:
    """Advice to print below an error of Spark's; empty where there is none."""
    stack = traceback.extract_tb(raised.__traceback__)
    if not stack or "/pyspark/" not in stack[-1].filename:
        return ""
    # PySpark says it in a text, or only asserts it: `assert SparkContext._active_spark_context is not None`.
    asserts = isinstance(raised, AssertionError) and "_active_spark_context" in (stack[-1].line or "")
    return _NO_SESSION if asserts or "SESSION_OR_CONTEXT_NOT_EXISTS" in str(raised) else ""


def _tell_all(raised: BaseException) -> None:
    """Have a traceback give what errors came of, also where that was left out: Spark's own stack is long."""
    each: BaseException | None = raised
    while each is not None:
        each.__suppress_context__ = False
        each = each.__cause__ or each.__context__


def _is_machinery(file: str) -> bool:
    return file.startswith((_OURS, "<frozen")) or any(part in file for part in _MACHINERY)
