"""Plain text in columns."""

from __future__ import annotations

from flykka.views.text.formats import columns


def test_columns_are_as_wide_as_their_widest_cell_without_trailing_blanks() -> None:
    assert list(columns(("count", "what"), [("1", "a"), ("1,000", "bb")], "><")) == [
        "count  what",
        "    1  a",
        "1,000  bb",
    ]


def test_columns_are_left_aligned_by_default() -> None:
    assert list(columns(("", "b"), [("long", "x")])) == ["      b", "long  x"]
