"""HTML that escapes by default: only `element` turns text into markup.

A `display` is shown inside another page, such as the output of a notebook cell. It includes its stylesheet, and its
text has the colour of that page. A `page` is self-contained.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files

# The colours of dots, bars and lines are legible on light and dark pages.
GREEN, BLUE, AMBER, RED, GREY = "#30a46c", "#3e8ed0", "#f0a020", "#e5484d", "#8f8f8f"

_STATUS_COLOURS = {
    "RUNNING": GREEN,
    "FINISHED": BLUE,
    "COMPLETED": GREEN,
    "FAILED": RED,
    "FAILING": RED,
    "RESTARTING": AMBER,
    "DEPLOYING": AMBER,
    "CANCELING": AMBER,
    "CANCELLING": AMBER,
}
"""Colours by state. States without a colour are waiting or cancelled."""


class Html(str):
    """Markup that is inserted into other markup without escaping."""

    __slots__ = ()


def element(tag: str, *content: str, **attributes: object) -> Html:
    """Create an element from content and attributes, which are escaped unless they are `Html`.

    Empty attributes are omitted. `class_` becomes `class`, and `stroke_width` becomes `stroke-width`.
    """
    pairs = ((name.rstrip("_").replace("_", "-"), str(value)) for name, value in attributes.items())
    attributes_text = "".join(f' {name}="{escape(value)}"' for name, value in pairs if value)
    return Html(f"<{tag}{attributes_text}>{fragment(*content)}</{tag}>")


def fragment(*content: str) -> Html:
    """Concatenate pieces of content. Text is escaped."""
    return Html("".join(each if isinstance(each, Html) else escape(each) for each in content))


def dot(text: str, status: str | None = None, *, colour: str = "") -> Html:
    """Create a text after a dot in the colour of `status`, or of the text itself by default."""
    colour = colour or _STATUS_COLOURS.get(text if status is None else status, GREY)
    return fragment(element("span", class_="dot", style=f"background: {colour}"), text)


def quiet(text: str, tag: str = "div") -> Html:
    return element(tag, text, class_="quiet")


def head(name: str, *facts: str, state: str = "") -> Html:
    """Create the header line: a name, a state with its dot, and facts in a muted colour."""
    spans = [element("span", text) for text in (state,) if text] + [quiet(fact, "span") for fact in facts if fact]
    return element("div", element("span", name, class_="name"), *spans, class_="head")


def table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> Html:
    """Create a table of columns (title and class of the stylesheet) and rows. Without rows the result is empty."""
    body = fragment(
        *(
            element("tr", *(element("td", cell, class_=kind) for cell, (_, kind) in zip(row, columns, strict=True)))
            for row in rows
        )
    )
    titles = fragment(*(element("th", title, class_=kind) for title, kind in columns))
    return element("table", element("thead", element("tr", titles)), element("tbody", body)) if body else body


def labelled(facts: Iterable[tuple[str, str]]) -> Html:
    rows = (element("tr", quiet(label, "td"), element("td", text, class_="wide")) for label, text in facts)
    return element("table", element("tbody", *rows))


def note(text: str) -> Html:
    return element("div", text, class_="note")


def lines(text: str, *, bad: bool = False) -> Html:
    """Create preformatted lines with a bar at their side, which is red if `bad`."""
    return element("div", text, class_="lines bad" if bad else "lines")


def display(*parts: str, kind: str = "") -> str:
    """Wrap markup for display inside another page, with its stylesheet. `kind` is an additional class."""
    style = Html(asset("flykka.views.html", "display.css"))
    return str(fragment(element("style", style), element("div", *parts, class_=f"flykka {kind}".rstrip())))


def page(title: str, *body: str, style: str) -> str:
    """Create a self-contained page, light or dark by the reader's settings. `style` is its stylesheet."""
    sheet = Html(asset("flykka.views.html", "page.css") + style)
    header = fragment(
        Html('<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'),
        Html('<meta name="color-scheme" content="light dark">\n'),
        element("title", title),
        element("style", sheet),
    )
    return f'<!doctype html>\n<html lang="en">\n{element("head", header)}\n{element("body", *body)}\n</html>\n'


@cache
def asset(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")
