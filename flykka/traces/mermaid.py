"""Formats a sequence diagram in Mermaid syntax, for Markdown and other tools."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flykka.runtime.trace.records import Killed, Turn
from flykka.runtime.trace.text import failure_of, failure_text, message_text
from flykka.traces.diagram import Arrow, Collapsed, Diagram, short_names
from flykka.views.text.turns import ids_cut_short

_TEXT_LENGTH = 100
# Characters of Mermaid's grammar, and the keyword that ends its blocks, must be escaped.
_ENTITIES = {"#": "#35;", ";": "#59;", "<": "#lt;", ">": "#gt;", '"': "#quot;", "%": "#37;", "{": "#123;", "}": "#125;"}
_END = re.compile(r"\bend\b", re.IGNORECASE)


def mermaid(diagram: Diagram) -> str:
    """Return a `sequenceDiagram`. A sender outside of the system, such as a client's thread, is called `outside`."""
    return "\n".join(_lines(diagram)) + "\n"


def _lines(diagram: Diagram) -> Iterator[str]:
    names = short_names(diagram.lifelines)
    ids = {path: f"a{number}" for number, path in enumerate(diagram.lifelines)}
    yield "sequenceDiagram"
    yield from (f"    %% {_escaped(note)}" for note in (diagram.title, *diagram.notes))
    if any(isinstance(line, Arrow) and _is_from_outside(line) for line in diagram.lines):
        yield "    actor outside"
    yield from (f"    participant {ids[path]} as {_escaped(names[path])}" for path in diagram.lifelines)
    for line in diagram.lines:
        yield f"    {_line(line, ids, diagram.begin_ms)}"
        if isinstance(line, Arrow) and isinstance(line.record, Turn) and line.record.failure is not None:
            yield f"    Note over {ids[line.recipient]}: FAILED {_escaped(failure_text(line.record.failure))}"


def _line(line: Arrow | Collapsed, ids: dict[str, str], begin_ms: int) -> str:
    if isinstance(line, Collapsed):
        ends = sorted((ids[path] for path in line.actors), key=lambda each: int(each[1:]))
        span = ends[0] if len(ends) == 1 else f"{ends[0]},{ends[-1]}"
        return f"Note over {span}: {_escaped(line.text)}"
    record, recipient = line.record, ids[line.recipient]
    seconds = f"{(record.now_ms - begin_ms) / 1000:+.3f}"
    if isinstance(record, Killed):
        return f"Note over {recipient}: {record.sequence} {seconds} KILLED"
    message = getattr(record, "message", None)
    label = line.name if message is None else message_text(message)
    text = f"{record.sequence} {seconds} {_escaped(label)}"
    sender = recipient if line.kind == "timer" else "outside" if line.sender is None else ids[line.sender]
    return f"{sender}{_arrow_head(line)}{recipient}: {text}"


def _arrow_head(arrow: Arrow) -> str:
    """Return a cross for a message that did not arrive or caused a failure, dashes for messages of the kernel."""
    if arrow.kind == "dead letter" or failure_of(arrow.record) is not None:
        return "-x"
    return "->>" if arrow.kind == "message" else "-->>"


def _is_from_outside(arrow: Arrow) -> bool:
    return arrow.sender is None and arrow.kind != "timer" and not isinstance(arrow.record, Killed)


def _escaped(text: str) -> str:
    short = ids_cut_short(_one_line(text))
    cut = short if len(short) <= _TEXT_LENGTH else f"{short[: _TEXT_LENGTH - 3]}..."
    escaped = "".join(_ENTITIES.get(character, character) for character in cut)
    return _END.sub(lambda match: f"{match[0][0]}#8203;{match[0][1:]}", escaped)


def _one_line(text: str) -> str:
    return " ".join(text.split())
