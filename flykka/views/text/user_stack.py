"""Formats a failure for the user: the lines of the user's own files first, then its causes.

The lines come from Python's stack trace, and from the stack trace of a Spark Python worker within it. Lines of flykka,
Spark and libraries are counted but not shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from flykka.messages.wire.failure import SerializedThrowable
from flykka.spark_bridge.diagnosis.user_files import is_users

SHOWN_CAUSES = 3
"""The maximum number of nested causes that are shown."""

_BEGIN = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "(?P<file>.+)", line \d+, in .+')
_RAISED = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$")
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")


@dataclass(slots=True)
class _Section:
    """An exception in the text: its lines in the user's files, the number of other lines, its message."""

    is_caused: bool
    own: list[str] = field(default_factory=list)
    others: int = 0
    type_name: str = ""
    text: str = ""


def full_text(cause: SerializedThrowable) -> list[str]:
    """Return a failure's message, then the line of its operator, then the user's lines that led to it."""
    message_lines = cause.message.strip().splitlines()
    indented = [line for line in message_lines if line.startswith("  ")]
    story = user_story(cause)
    if not story:
        return message_lines
    # The user's last line is part of `user_story`, so it is not repeated.
    places = [number for number, line in enumerate(indented) if line.startswith("  File ")]
    blocks = [indented[begin:end] for begin, end in zip(places, [*places[1:], None], strict=True)]
    above = [line for block in blocks if block[0] not in story for line in block]
    return [*(line for line in message_lines if not line.startswith("  ")), *above, *story]


def user_story(cause: SerializedThrowable) -> list[str]:
    """Return the lines below the first line of a failure, or none if no line of the user was running."""
    sections = list(_sections(cause.stack_trace.splitlines()))
    place = next((n for n in reversed(range(len(sections))) if _is_of(sections[n], cause)), None)
    if place is None:
        return []
    lines = list(sections[place].own)
    depth = 1
    while sections[place].is_caused and place > 0 and depth <= SHOWN_CAUSES:
        place, depth = place - 1, depth + 1
        section = sections[place]
        if section.own:
            lines += [f"caused by {section.type_name}{f': {section.text}' if section.text else ''}", *section.own]
    return lines


def _is_of(section: _Section, cause: SerializedThrowable) -> bool:
    return bool(section.own) and section.type_name == cause.type_name


def _sections(lines: list[str]) -> Iterator[_Section]:
    section: _Section | None = None
    is_caused = is_own = False
    for line in lines:
        if line.strip() == _BEGIN:
            section, is_caused, is_own = _Section(is_caused), False, False
        elif line.startswith(_CHAINED):
            is_caused = True
        elif section is not None and (frame := _FRAME.match(line)):
            is_own = is_users(frame["file"])
            section.others += not is_own
            section.own += [line] if is_own else []
        elif section is not None and line.startswith("    "):
            # The source line is kept. The marks below it are omitted.
            section.own += [line] if is_own and line.strip("^~ ") else []
        elif section is not None and (raised := _RAISED.match(line)):
            section.type_name, section.text = raised["type"].rpartition(".")[2], raised["text"] or ""
            yield section
            section = None
