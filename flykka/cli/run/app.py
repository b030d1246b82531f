"""An app: a Python script that runs as with `python`; its errors are displayed without flykka's own frames."""

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
flykka: there is no Spark session yet: get_execution_environment(...) creates it. Move this line after that, or into a
function that is called later. A UDF may stay here if its return type is a type object instead of a text, as in
F.udf(function, LongType())."""


class App:
    needs_jobs = True
    """True if an app that executes no job counts as failed."""

    def __init__(self, path: str, arguments: Sequence[str] = ()) -> None:
        self.path = path
        self.arguments = tuple(arguments)

    def problem(self) -> str | None:
        path = Path(self.path)
        if path.is_dir():
            return f"{self.path} is a folder: pass the Python file of the app"
        if not path.exists():
            return f"there is no file {self.path}"
        try:
            path.open("rb").close()
        except OSError as refused:
            return f"{self.path} cannot be read: {refused.strerror}"
        return None

    def run(self) -> None:
        """Run the script as `__main__`, with its folder first on the path. All errors are raised, even SystemExit."""
        before = list(sys.argv), list(sys.path)
        sys.argv[:] = [self.path, *self.arguments]
        sys.path.insert(0, str(Path(self.path).resolve().parent))
        try:
            runpy.run_path(self.path, run_name="__main__")
        finally:
            sys.argv[:], sys.path[:] = before

    def explained(self, raised: BaseException, *, whole: bool = False) -> str:
        """Return the text for an error of the app. The error itself comes last.

        An error of flykka is shown with the line of the app that caused it. Any other error is shown with its
        traceback, from which frames of flykka and PySpark are removed unless `whole` is set.
        """
        return masked(self._explained(raised, whole)) + ("" if is_ours(raised) and not whole else _hint(raised))

    def _explained(self, raised: BaseException, whole: bool) -> str:
        if whole:
            _include_causes(raised)
            return "".join(TracebackException.from_exception(raised).format()).rstrip()
        report = TracebackException.from_exception(raised)
        if not is_ours(raised):
            self._remove_library_frames(report)
            return "".join(report.format()).rstrip()
        frames = self._app_frames(report.stack)
        where = f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}\n" if frames else ""
        return f"{where}flykka: {type(raised).__name__}: {raised}"

    def _remove_library_frames(self, report: TracebackException) -> None:
        report.stack = StackSummary.from_list(self._app_frames(report.stack))
        for before in (report.__cause__, report.__context__):
            if before is not None:
                self._remove_library_frames(before)

    def _app_frames(self, stack: StackSummary) -> list[FrameSummary]:
        numbers = (number for number, frame in enumerate(stack) if frame.filename == self.path)
        return [frame for frame in stack[next(numbers, 0) :] if not _is_internal(frame.filename)]


def app_of(options: argparse.Namespace) -> App:
    """Return the app of a command line. If the app cannot run at all, exit with a usage error."""
    app = App(options.app, options.arguments)
    if (problem := app.problem()) is not None:
        options.parser.error(problem)
    return app


def is_ours(raised: BaseException) -> bool:
    """Return whether this is an error of flykka, whose message explains what to do."""
    return isinstance(raised, FlykkaError) or type(raised).__module__.split(".")[0] == "flykka"


def _hint(raised: BaseException) -> str:
    stack = traceback.extract_tb(raised.__traceback__)
    if not stack or "/pyspark/" not in stack[-1].filename:
        return ""
    # PySpark raises either an error or a bare assertion: `assert SparkContext._active_spark_context is not None`.
    asserts = isinstance(raised, AssertionError) and "_active_spark_context" in (stack[-1].line or "")
    return _NO_SESSION if asserts or "SESSION_OR_CONTEXT_NOT_EXISTS" in str(raised) else ""


def _include_causes(raised: BaseException) -> None:
    """Include suppressed causes in the traceback. PySpark suppresses the JVM's stack trace because it is long."""
    each: BaseException | None = raised
    while each is not None:
        each.__suppress_context__ = False
        each = each.__cause__ or each.__context__


def _is_internal(file: str) -> bool:
    return file.startswith((_OURS, "<frozen")) or any(part in file for part in _MACHINERY)
