"""A sequence diagram as a self-contained HTML page: no network, and light or dark by the reader's settings.

The page contains the turns as data, and a script draws only the visible turns, so that long traces are displayed fast.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from flykka.runtime.trace.records import Spawned, Turn
from flykka.runtime.trace.text import effect_text, failure_of, failure_text, message_text
from flykka.traces.diagram import Arrow, Collapsed, Diagram, Line, short_names
from flykka.traces.record_json import plain
from flykka.views.html.markup import Html, asset, element, page
from flykka.views.text.turns import ids_cut_short

HEIGHT = 560
"""The height of a diagram in the output of a cell, in pixels."""

_FRAME = "display: block; box-sizing: border-box; width: 100%; border: 1px solid rgba(128, 128, 128, .3)"
_SCRIPTS = ("model.js", "canvas.js", "controls.js")
_NOBODY = -1
_COLLAPSED = -1
# These limits keep a message readable, but omit for example the complete state of a checkpoint.
_DEPTH = 6
_ITEMS = 30
_TEXT_LENGTH = 1_000


def diagram_page(diagram: Diagram, name: str) -> str:
    notes = [element("span", note, class_="note") for note in diagram.notes]
    toolbar = Html(_asset("toolbar.html"))
    count = element("span", class_="count", id="counted")
    # The data is escaped so that no text ends the script or begins a comment.
    data = Html(json.dumps(_data(diagram), separators=(",", ":")).replace("<", "\\u003c"))
    return page(
        f"{name} - flykka trace",
        element("header", element("h1", name), element("span", diagram.title, class_="faint"), *notes, count, toolbar),
        element("noscript", "This diagram needs scripts, which are disabled."),
        element(
            "main",
            element("canvas", tabindex="0", role="img", aria_label="sequence diagram"),
            Html('<div id="tip" hidden></div>'),
        ),
        element("aside"),
        element("script", data, type="application/json", id="trace"),
        element("script", Html("\n".join(map(_asset, _SCRIPTS)))),
        style=_asset("page.css"),
    )


class SequenceDiagram:
    """A page with a sequence diagram, created by `Trace.sequence_diagram`. `html` is the complete page."""

    def __init__(self, html: str, text: str, *, height: int = HEIGHT) -> None:
        self.html = html
        self.height = height
        self._text = text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the display for IPython. The page's script runs in a sandbox."""
        frame = element(
            "iframe",
            srcdoc=self.html,
            sandbox="allow-scripts",
            title=self._text,
            style=f"{_FRAME}; height: {self.height}px",
        )
        return {"text/html": frame, "text/plain": self._text}

    def __repr__(self) -> str:
        return f"<SequenceDiagram: {self._text}>"


def _asset(name: str) -> str:
    return asset("flykka.traces", f"diagram_page/{name}")


def _data(diagram: Diagram) -> dict[str, Any]:
    actors = {path: number for number, path in enumerate(diagram.lifelines)}
    types: dict[str, int] = {}
    rows = [_row(line, diagram.begin_ms, actors, types) for line in diagram.lines]
    names = short_names(diagram.lifelines)
    return {
        "actors": list(actors),
        "names": [names[path] for path in actors],
        "types": list(types),
        "rows": rows,
    }


def _row(line: Line, begin_ms: int, actors: dict[str, int], types: dict[str, int]) -> Sequence[Any]:
    """Return a row in the format that the head of `model.js` describes."""
    if isinstance(line, Collapsed):
        among = [actors[path] for path in line.actors]
        ms = line.now_ms - begin_ms
        return (line.first, ms, "collapsed", _NOBODY, among[0], _COLLAPSED, None, line.text, among, [], None)
    record = line.record
    return (
        record.sequence,
        record.now_ms - begin_ms,
        line.kind,
        _NOBODY if line.sender is None else actors[line.sender],
        actors[line.recipient],
        types.setdefault(line.name, len(types)),
        line.cause,
        _text(line),
        _fields(line),
        [effect_text(effect) for effect in record.effects] if isinstance(record, Turn) else [],
        _failure(line),
    )


def _text(arrow: Arrow) -> str:
    message = getattr(arrow.record, "message", None)
    return arrow.name if message is None else ids_cut_short(message_text(message))


def _failure(arrow: Arrow) -> str | None:
    failure = failure_of(arrow.record)
    if failure is not None:
        return failure_text(failure)
    reason: str | None = getattr(arrow.record, "reason", None)
    return reason


def _fields(arrow: Arrow) -> Any:
    if isinstance(arrow.record, Spawned):
        return {"actor": arrow.record.actor}
    message = getattr(arrow.record, "message", None)
    return None if message is None else _brief(plain(message), _DEPTH)


def _brief(item: Any, depth: int) -> Any:
    match item:
        case str() if len(item) > _TEXT_LENGTH:
            return f"{item[:_TEXT_LENGTH]}... ({len(item):,} characters)"
        case dict() | list() if depth == 0:
            return f"({len(item)} more)" if item else item
        case dict():
            return {name: _brief(part, depth - 1) for name, part in item.items()}
        case list() if len(item) > _ITEMS:
            return [*(_brief(part, depth - 1) for part in item[:_ITEMS]), f"... {len(item):,} items"]
        case list():
            return [_brief(part, depth - 1) for part in item]
        case _:
            return item
