"""Extracts the file and the reason from errors of Spark about files that it cannot read.

Spark names the file at the top of a chain of causes and the reason at its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import CapturedException

from flykka.spark_bridge.errors import UnreadableFileError
from flykka.spark_bridge.session.jvm_classes import is_instance

_CONDITION = re.compile(r"^\s*\[[A-Z0-9_.]+\] ?")
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffd\s]+")
_LONGEST = 400
_PLACE = re.compile(r"JsonParseException: .* line: (?P<line>\d+), column: (?P<column>\d+)\]")
LONGEST_JSON_TEXT = 20_000_000
"""The maximum length of a text that Jackson, Spark's JSON parser, reads."""
_UNREADABLE = "FAILED_READ_FILE"
_MALFORMED = "MALFORMED_RECORD_IN_PARSING"
_LENIENT = " (with the option mode='PERMISSIVE' such records are read as nulls)"


def unreadable_path(raised: BaseException) -> str | None:
    for throwable in throwables(raised):
        if _condition(throwable).startswith(_UNREADABLE):
            return plain_path(unquote(str(throwable.getMessageParameters().get("path"))))
    return None


def unreadable_file(path: str, raised: BaseException) -> UnreadableFileError:
    unreadable = UnreadableFileError(f"cannot read {path}: {reason(raised)}")
    unreadable.__cause__ = raised
    return unreadable


def plain_path(path: str) -> str:
    """Return a path as users write it: without `file:` if it is local."""
    return "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:") else path


def reason(raised: BaseException) -> str:
    """Return the reason of an error of Spark in one line: the last cause that has a text."""
    causes = list(_causes(raised))
    texts = [text for throwable in causes if (text := _cause_text(throwable))]
    text = texts[-1] if texts else _plain(str(raised)) or type(raised).__name__
    if (too_long := too_long_text(text)) is not None:
        return too_long
    lenient = any(_condition(throwable).startswith(_MALFORMED) for throwable in causes)
    return text + (_LENIENT if lenient else "")


def too_long_text(text: str) -> str | None:
    """Return the reason if a parser reports a position beyond the maximum length of a text; None for other errors.

    Spark suppresses the error about the length and reports the next error: an unexpected character within the text.
    """
    place = _PLACE.match(text)
    if place is None or int(place["column"]) < LONGEST_JSON_TEXT:
        return None
    return (
        f"line {place['line']} has a text of more than {LONGEST_JSON_TEXT:,} characters, the most that Spark reads in"
        " JSON: shorten it, or write such rows as Parquet"
    )


def _cause_text(throwable: Any) -> str:
    text = _plain(str(throwable.getMessage() or ""))
    return f"{throwable.getClass().getSimpleName()}: {text}" if text and not _of_spark(throwable) else text


def throwables(raised: BaseException) -> Iterator[Any]:
    yield from (each for each in _causes(raised) if _of_spark(each))


def _causes(raised: BaseException) -> Iterator[Any]:
    match raised:
        case Py4JJavaError():
            throwable = raised.java_exception
        case CapturedException():
            throwable = raised._origin
        case _:
            throwable = None
    while throwable is not None:
        yield throwable
        throwable = throwable.getCause()


def _of_spark(throwable: Any) -> bool:
    return SparkContext._jvm is not None and is_instance(throwable, "org.apache.spark.SparkThrowable")


def _condition(throwable: Any) -> str:
    return str(throwable.getCondition() or "") if _of_spark(throwable) else ""


def _plain(text: str) -> str:
    """Strip Spark's condition, its SQL state, and the lines that repeat a query or a file.

    Spark quotes all content that it could not read, which may be binary.
    """
    lines = _SQL_STATE.sub("", _CONDITION.sub("", text)).splitlines()
    relevant = [line.strip() for line in lines if line.strip() and not line.startswith(("==", "--", "CSV file:"))]
    text = _UNPRINTABLE.sub(" ", " ".join(relevant)).removesuffix(".")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
