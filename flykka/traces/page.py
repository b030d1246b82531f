"""A sequence diagram as one page of HTML that needs nothing else: no network; light or dark as the reader has it.

The page holds the turns as data, and a script draws those on the screen: so that a long trace stays quick.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from flykka.runtime.trace.effect_text import effect_text
from flykka.runtime.trace.records import Spawned, Turn
from flykka.runtime.trace.text import failure_of, failure_text, message_text
from flykka.traces.diagram import Arrow, Collapsed, Diagram, Line
from flykka.traces.names import short_names, with_short_ids
from flykka.traces.record_json import plain

_SCRIPTS = ("model.js", "canvas.js", "controls.js")
_NOBODY = -1
_COLLAPSED = -1
# What a page tells of a message: enough to read it, and not the state of a checkpoint in full.
_DEPTH = 6
_ITEMS = 30
_TEXT_LENGTH = 1_000


def page(drawn: Diagram, name: str) -> str:
    """The whole page; `name` is what the trace is called."""
    notes = " ".join(f'<span class="note">{escape(note)}</span>' for note in drawn.notes)
    # Within a script no text can end it, or begin a comment.
    data = json.dumps(_data(drawn), separators=(",", ":")).replace("<", "\\u003c")
    script = "\n".join(_asset(each) for each in _SCRIPTS)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(name)} - flykka trace</title>
<style>
{_asset("page.css")}</style>
</head>
<body>
<header>
<h1>{escape(name)}</h1><span class="faint">{escape(drawn.title)}</span> {notes}<span class="count" id="counted"></span>
<form>
<input type="search" placeholder="search: words, #turn" aria-label="search">
<button type="button" id="only" aria-pressed="false" title="show only what is found">only</button>
<button value="back" title="previous (Shift+Enter)">&uarr;</button><button title="next (Enter)">&darr;</button>
<button type="button" id="larger" title="larger rows (+)">+</button>
<button type="button" id="smaller" title="smaller rows (-)">&minus;</button>
<button type="button" id="wider" title="more room between actors">&harr;</button>
<button type="button" id="narrower" title="less room between actors">&rarr;&larr;</button>
<button type="button" id="fit" title="all of it (0)">all</button>
<button type="button" id="theme" title="light or dark">&#9680;</button>
</form>
</header>
<noscript>The diagram is drawn by a script, and scripts are off here.</noscript>
<main><canvas tabindex="0" role="img" aria-label="sequence diagram"></canvas><div id="tip" hidden></div></main>
<aside></aside>
<script type="application/json" id="trace">{data}</script>
<script>
{script}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return (files(__package__) / "diagram_page" / name).read_text(encoding="utf-8")


def _data(drawn: Diagram) -> dict[str, Any]:
    actors = {path: number for number, path in enumerate(drawn.lifelines)}
    types: dict[str, int] = {}
    rows = [_row(line, drawn.begin_ms, actors, types) for line in drawn.lines]
    names = short_names(drawn.lifelines)
    return {
        "actors": list(actors),
        "names": [names[path] for path in actors],
        "types": list(types),
        "rows": rows,
    }


def _row(line: Line, begin_ms: int, actors: dict[str, int], types: dict[str, int]) -> Sequence[Any]:
    """As the head of `model.js` says."""
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
    return arrow.name if message is None else with_short_ids(message_text(message))


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
