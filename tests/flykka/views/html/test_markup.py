"""The HTML kit: text never becomes markup, and markup is never escaped twice."""

from __future__ import annotations

import pytest

from flykka.views.html.markup import Html, display, dot, element, fragment, head, labelled, lines, note, page, table
from tests.flykka.notebook.html_reader import Reader

EVIL = "<script>alert('\"&')</script>"


def test_text_and_attributes_are_escaped() -> None:
    made = element("p", EVIL, title=EVIL)

    assert made.count("<script") == 0
    assert Reader(made).text == EVIL


def test_rendered_elements_are_nested_without_escaping() -> None:
    assert element("p", "a", element("b", "1 < 2"), "c") == "<p>a<b>1 &lt; 2</b>c</p>"


def test_attributes_without_value_are_omitted_and_underscores_replaced() -> None:
    assert element("p", class_="wide", title="", aria_label="x") == '<p class="wide" aria-label="x"></p>'


def test_a_table_without_rows_is_empty() -> None:
    assert table([("name", "")], []) == fragment() == Html("")


def test_a_row_of_the_wrong_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter than argument 1"):
        table([("name", "")], [("a", "b")])


@pytest.mark.parametrize(
    "made",
    [
        head(EVIL, EVIL, state=EVIL),
        dot(EVIL),
        labelled([(EVIL, EVIL)]),
        lines(EVIL),
        note(EVIL),
        table([(EVIL, "wide")], [(EVIL,)]),
        display(EVIL),
        page(EVIL, EVIL, style=""),
    ],
)
def test_no_part_of_a_display_turns_text_into_markup(made: str) -> None:
    assert "<script" not in made
    assert "&lt;script&gt;" in made


def test_a_status_dot_has_the_colour_of_its_status_or_grey() -> None:
    assert "#30a46c" in dot("RUNNING")
    assert "#30a46c" in dot("RUNNING 1/2", "RUNNING")
    assert "#8f8f8f" in dot("a state of tomorrow")
