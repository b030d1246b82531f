"""Failures as text: a short message that names the operator and the user's line, the whole story in the stack trace."""

from __future__ import annotations

import re
import traceback

from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.errors.exceptions.captured import CapturedException

from flykka.messages.failure import SerializedThrowable

_LIMIT = 1000


def serialized(what: str, raised: BaseException) -> SerializedThrowable:
    """`raised` as it is told: `what` says where it happened."""
    try:
        name, text = _described(raised)
    except Exception:  # noqa: BLE001 - the JVM that would say more is gone; that there was a failure must be told
        name, text = type(raised).__name__, "and what it said is lost: it cannot be turned into text"
    stack = "".join(traceback.format_exception(raised))
    if isinstance(raised, CapturedException) and raised._stackTrace:
        stack += f"\n{raised._stackTrace}"
    return SerializedThrowable(type_name=name, message=f"{what}: {text[:_LIMIT]}", stack_trace=stack)


def _described(raised: BaseException) -> tuple[str, str]:
    match raised:
        case Py4JJavaError():
            text = str(raised.java_exception.toString())
            in_python = _in_python(text)
            return in_python or _java(text)
        case PythonException():
            text = str(raised)
            return _in_python(text) or (type(raised).__name__, _first_line(text))
        case CapturedException():
            return _in_python(str(raised)) or (type(raised).__name__, _first_line(raised.getMessage() or str(raised)))
        case _:
            return type(raised).__name__, str(raised) or "no message"


def _in_python(text: str) -> tuple[str, str] | None:
    """Type and text of an exception that a Python function raised in a worker, with the function's own line."""
    begin = text.rfind("Traceback (most recent call last):")
    if begin < 0:
        return None
    lines = text[begin:].splitlines()
    places = [
        (number, found)
        for number, line in enumerate(lines)
        if (found := re.match(r'\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<name>.+)', line))
        and "/pyspark/" not in found["file"]
    ]
    outcome = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$")
    last = next((found for line in lines[1:] if not line.startswith(" ") and (found := outcome.match(line))), None)
    if last is None:
        return None
    said = last["text"] or "no message"
    if places:
        number, place = places[-1]
        source = lines[number + 1].strip() if number + 1 < len(lines) else ""
        said += f' (File "{place["file"]}", line {place["line"]}, in {place["name"]}: {source})'
    return last["type"].rpartition(".")[2], said


def _java(text: str) -> tuple[str, str]:
    line = _first_line(text)
    name, separator, said = line.partition(": ")
    return (name.rsplit(".", 1)[-1], said) if separator else ("Py4JJavaError", line)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")
