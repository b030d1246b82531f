"""A plan on the terminal, in Markdown and in HTML."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from rich.console import Console

from flykka.views.plan.mermaid import mermaid
from flykka.views.plan.page import page
from flykka.views.plan.terminal import rendered
from tests.flykka.views.plan.plans import plan

VOID = {"meta", "path"}


def terminal_text_of(width: int, *graphs: str) -> str:
    console = Console(width=width, file=io.StringIO())
    with console.capture() as captured:
        console.print(rendered(plan(), graphs or ("stream", "job", "execution")))
    return captured.get()


def test_a_job_graph_is_drawn_on_the_terminal() -> None:
    text = re.sub(r" · id \w+", "", terminal_text_of(100, "job"))

    assert text.splitlines()[2:] == [
        "Job graph  5 vertices: operators in one box run as one task; up to: the maximum parallelism, its",
        "number of key groups",
        "● orders",
        "│ valid",
        "│ parallelism 4 (up to 128) · group default",
        "├─╮",
        "│ │",
        "│ │ ● returns",
        "│ │ │ parallelism 2 (up to 128) · group default",
        "│ │ │",
        "├─┼─╯",
        "● │ sums",
        "│ │ hash · parallelism 2 (up to 16) · group default",
        "│ │",
        "│ ● archive",
        "│   rescale · parallelism 2 (up to 128) · group apart",
        "│",
        "● <&out>",
        "  rebalance · parallelism 1 (up to 128) · group default",
        "",
    ]


def test_every_operator_is_readable_on_light_and_dark_terminals() -> None:
    console = Console(width=100, file=io.StringIO(), color_system="standard", force_terminal=True, no_color=False)
    with console.capture() as captured:
        console.print(rendered(plan(), ["stream"]))
    colours = set(re.findall(r"[\[;](3[0-7])(?=[m;])", captured.get()))

    assert colours
    assert colours.isdisjoint({"30", "37"})


@pytest.mark.parametrize("width", [24, 48, 200])
def test_no_line_is_wider_than_the_terminal_and_no_text_is_lost(width: int) -> None:
    text = terminal_text_of(width)

    assert all(len(line) <= width for line in text.splitlines())
    assert not any(line.endswith(" ") for line in text.splitlines())
    assert {"orders", "returns", "valid", "sums", "archive", "rescale", "(2/4)"} <= set(re.split(r"[\s│]+", text))


def test_many_slots_are_counted_and_not_listed() -> None:
    many = replace(plan(), slots=plan().slots * 10)
    console = Console(width=100, file=io.StringIO())
    with console.capture() as captured:
        console.print(rendered(many, ("execution",)))

    assert "... 44 more slots" in captured.get()


def test_mermaid_has_a_flowchart_for_each_graph_with_names_escaped() -> None:
    text = mermaid(plan())

    assert text.count("```mermaid\n") == 3
    assert '["&lt;&amp;out&gt;<br>parallelism 1"]' in text
    assert "-->|rescale|" in text
    assert 'subgraph s0["apart 1"]' in text


class Tags(HTMLParser):
    """Checks that every element is closed, and collects the fetched resources."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.fetched += [value or "" for name, value in attributes if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def test_the_page_is_complete_and_self_contained() -> None:
    text = page(plan())
    tags = Tags()
    tags.feed(text)

    assert tags.open == []
    assert tags.fetched == []
    assert "http" not in text
    assert "<script" not in text
    assert "<title>sums of &lt;orders&gt; - flykka plan</title>" in text
    assert "prefers-color-scheme: dark" in text


def test_a_page_of_one_graph_contains_only_that_graph() -> None:
    text = page(plan(), ("execution",))

    assert re.findall(r"<h2>(.*?)</h2>", text) == ["Execution graph"]
