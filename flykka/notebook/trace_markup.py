"""What the displays of traces and replays are made of: one style, tables, lines of text, all of it escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from flykka.cli.trace_table import ids_cut_short

# As in the picture of a job: text has the colour of the page it stands on, and colours suit a light and a dark one.
STYLE = """<style>
.flykka-trace { font: 13px/1.6 system-ui, sans-serif; color: inherit; max-width: 96em; margin: .4em 0;
  overflow-x: auto }
.flykka-trace .head { display: flex; flex-wrap: wrap; gap: 0 1em; align-items: baseline }
.flykka-trace table + .head { margin-top: .8em }
.flykka-trace .name { font-size: 1.2em; font-weight: 600; overflow-wrap: anywhere }
.flykka-trace .quiet { opacity: .65 }
.flykka-trace .dot { display: inline-block; width: .6em; height: .6em; margin-right: .5em; border-radius: 50% }
.flykka-trace table { border-collapse: collapse; border: 0; margin: .5em 0 0; color: inherit; table-layout: auto;
  font-size: inherit; font-variant-numeric: tabular-nums; background: none !important }
.flykka-trace tr { background: none !important }
.flykka-trace th, .flykka-trace td { padding: .15em 1.2em .15em 0; border: 0; max-width: none;
  vertical-align: baseline; border-bottom: 1px solid rgba(128, 128, 128, .25); text-align: left !important;
  white-space: normal; overflow-wrap: anywhere }
.flykka-trace th { font-weight: 500; opacity: .65; white-space: nowrap }
.flykka-trace td.text:not(:first-child) { min-width: 10em }
.flykka-trace td.code { min-width: 16em }
.flykka-trace .number { text-align: right !important; white-space: nowrap }
.flykka-trace td.wide { min-width: 14em }
.flykka-trace .code { font-family: ui-monospace, monospace; font-size: .95em }
.flykka-trace .note { margin: .4em 0 0; opacity: .8 }
.flykka-trace .told { margin: .6em 0 0; padding: .1em 0 .1em .8em; border-left: 3px solid #8f8f8f;
  white-space: pre-wrap; overflow-wrap: anywhere; font-family: ui-monospace, monospace; font-size: .95em }
.flykka-trace .bad { border-left-color: #e5484d }
</style>"""


def page(*parts: str) -> str:
    """The whole display of one object."""
    return f'{STYLE}<div class="flykka-trace">{"".join(parts)}</div>'


def head(name: str, *facts: str, state: tuple[str, str] | None = None) -> str:
    """The line at the top: a name, a state with its colour, and quiet facts."""
    shown = f'<span class="name">{escape(name)}</span>'
    if state is not None:
        colour, text = state
        shown += f'<span><span class="dot" style="background: {colour}"></span>{escape(text)}</span>'
    shown += "".join(f'<span class="quiet">{escape(fact)}</span>' for fact in facts if fact)
    return f'<div class="head">{shown}</div>'


def table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> str:
    """Titles with their kinds (classes of the style), and rows of plain text. Nothing at all where there is no row."""
    body = "".join(
        f"<tr>{''.join(_cell('td', text, kind) for text, (_, kind) in zip(row, columns, strict=True))}</tr>"
        for row in rows
    )
    titles = "".join(_cell("th", title, kind) for title, kind in columns)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>" if body else ""


def note(text: str) -> str:
    """A line beneath."""
    return f'<div class="note">{escape(text)}</div>'


def told(text: str, *, bad: bool = False) -> str:
    """Lines as they are, with a bar at their side."""
    return f'<div class="told{" bad" if bad else ""}">{escape(text)}</div>'


def _cell(tag: str, text: str, kind: str) -> str:
    """Long ids are cut short, as on a terminal; the whole text is shown where the mouse rests on it."""
    short = ids_cut_short(text)
    whole = f' title="{escape(text)}"' if short != text else ""
    return f'<{tag} class="{kind or "text"}"{whole}>{escape(short)}</{tag}>'
