"""Converts failures to text: the error, the operator, and the user's line, with all causes in the stack trace.

A failure may be wrapped several times: raised by a function in a Python worker, wrapped by Spark's task, stage and job,
and once more by the bridge to Python. It is unwrapped to the first error.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterable, Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PythonException
from pyspark.errors.exceptions.captured import CapturedException

from flykka.actors.machines.restart.repeated_failures import is_of_environment
from flykka.messages.wire.failure import SerializedThrowable, suppresses_restarts
from flykka.spark_bridge.diagnosis.spark_reasons import FATAL, OF_STORAGE, spark_reason
from flykka.spark_bridge.diagnosis.user_lines import line_in_query, line_in_traceback, line_of
from flykka.spark_bridge.errors import OperatorFailedError, UserLine
from flykka.spark_bridge.functions.error_texts import NOTE

_LIMIT = 1000
_ONE_OF_THESE = "one of these operators has failed, Spark does not report which:"
_OF_PLANS = "42"
"""The class of SQLSTATEs that Spark uses for invalid queries."""
_OF_CATALOGS = frozenset({"42K03", "42K04", "42P01", "42704", "42501"})
"""SQLSTATEs of missing or existing files, and of missing tables, schemas and permissions.

The next attempt may succeed, since these may change.
"""
_LOST_TASK = re.compile(r"most recent failure: Lost task [^\n]*?\(TID \d+\) \([^)]*\): (?P<cause>.*)", re.DOTALL)


def serialized(where: str, raised: BaseException, lines: Sequence[UserLine] = ()) -> SerializedThrowable:
    """Convert `raised` to text. `where` names the failed work, unless the failure itself names its operator.

    `lines` contains the line that created the operator, which is shown above the line that raised. Several lines are
    candidates: they are shown only if the line that raised is unknown.
    """
    stack = "".join(traceback.format_exception(raised))
    suppresses = suppresses_restarts(raised)
    if isinstance(raised, OperatorFailedError) and raised.__cause__ is not None:
        lines = () if raised.written is None else (raised.written,)
        where, raised = str(raised), raised.__cause__
    try:
        name, text, line = _described(raised)
        suppresses = suppresses or _class_suppresses(name) or _is_of_plan(raised)
        name = name.rpartition(".")[2]
    except Exception:  # noqa: BLE001 - the JVM may be gone, but the failure must be reported
        name, text, line = type(raised).__name__, "(its message cannot be converted to text)", None
    if name in OF_STORAGE:
        text = "; ".join([text, *getattr(raised, "__notes__", ())])
    if isinstance(raised, CapturedException) and raised._stackTrace:
        stack += f"\n{raised._stackTrace}"
    if len(lines) > 1 and is_of_environment(name):
        user_lines = []  # The failure was not caused by these operators.
    elif len(lines) > 1:
        user_lines = [_ONE_OF_THESE, *map(str, lines)] if line is None else [str(line)]
    else:
        above = [each for each in lines if line is None or (each.file, each.line) != (line.file, line.line)]
        user_lines = [str(each) for each in (*above, line) if each is not None]
    message = "\n".join([f"{where}: {text[:_LIMIT]}", *user_lines])
    return SerializedThrowable(
        type_name=name, message=message, stack_trace=stack, suppress_restarts=suppresses or name in FATAL
    )


def _is_of_plan(raised: BaseException) -> bool:
    """Return True if Spark's analyzer has rejected a plan, which would be rejected again in the next attempt."""
    state = raised.getSqlState() if isinstance(raised, AnalysisException) else None
    return state is not None and state.startswith(_OF_PLANS) and state not in _OF_CATALOGS


def _described(raised: BaseException) -> tuple[str, str, UserLine | None]:
    match raised:
        case Py4JJavaError():
            text = str(raised.java_exception.toString())
            return _in_python(text) or (*(_of_spark(str(raised)) or _of_task(text) or _java(text)), None)
        case PythonException():
            text = str(raised)
            return _in_python(text) or (type(raised).__name__, _first_line(text), None)
        case CapturedException():
            return _captured(raised)
        case SystemExit():
            return "SystemExit", _exit(str(raised)), line_of(raised)
        case _:
            text = str(raised) or "no message"
            return type(raised).__name__, _with_notes(text, getattr(raised, "__notes__", ())), line_of(raised)


def _captured(raised: CapturedException) -> tuple[str, str, UserLine | None]:
    of_worker = _in_python(str(raised))
    if of_worker is not None:
        return of_worker
    text = str(raised.getMessage() or raised)
    line = line_in_query(raised) or line_of(raised)
    reason = _of_spark(f"{text}\n{raised._stackTrace or ''}") or _of_task(text)
    return (*(reason or (type(raised).__name__, _first_line(text))), line)


def _in_python(text: str) -> tuple[str, str, UserLine | None] | None:
    """Extract type (with its module), text and line of a Python worker's exception from Spark's text."""
    begin = text.rfind("Traceback (most recent call last):")
    if begin < 0:
        return None
    lines = text[begin:].splitlines()
    outcome = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$")
    last = next((match for line in lines[1:] if not line.startswith(" ") and (match := outcome.match(line))), None)
    if last is None:
        return None
    name, detail = last["type"], last["text"]
    text = _exit(detail) if name == "SystemExit" else _with_notes(detail or "no message", lines)
    return name, text, line_in_traceback(lines)


def _class_suppresses(name: str) -> bool:
    """Return True if the class of a Python worker's exception suppresses restarts. Only the name of the class is
    known.
    """
    module, _, class_name = name.rpartition(".")
    error_class = getattr(sys.modules.get(module or "__main__"), class_name, None)
    return getattr(error_class, "suppress_restarts", False) is True


def _with_notes(text: str, lines: Iterable[str]) -> str:
    return "; ".join([text, *(line.removeprefix(NOTE) for line in lines if line.startswith(NOTE))])


def _exit(code: str | None) -> str:
    return f"sys.exit({code or ''}) was called, which does not end the job: raise an exception to make the job fail"


def _of_spark(text: str) -> tuple[str, str] | None:
    reason = spark_reason(text)
    return None if reason is None else (reason.name, reason.text)


def _of_task(text: str) -> tuple[str, str] | None:
    match = _LOST_TASK.search(text)
    return None if match is None else _java(match["cause"])


def _java(text: str) -> tuple[str, str]:
    line = _first_line(text)
    name, separator, detail = line.partition(": ")
    return (name.rsplit(".", 1)[-1], detail) if separator else ("Py4JJavaError", line)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")
