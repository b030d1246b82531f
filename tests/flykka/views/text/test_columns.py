"""Plain text in columns."""

from __future__ import annotations

from flykka.views.text.formats import columns


def test_each_column_is_as_wide_as_its_widest_cell_and_no_line_ends_with_blanks() -> None:
    assert list(columns(("count", "what"), [("1", "a"), ("1,000", "bb")], "><")) == [
        "count  what",
        "    1  a",
        "1,000  bb",
    ]


def test_without_an_alignment_all_columns_are_to_the_left() -> None:
    assert list(columns(("", "b"), [("long", "x")])) == ["      b", "long  x"]
