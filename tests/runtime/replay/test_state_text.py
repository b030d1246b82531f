"""A state is printed as a tree of lines; a change is identified by its path."""

from __future__ import annotations

import pytest

from flykka.messages.wire.message import Value, value
from flykka.runtime.trace.state.description import Absent, changes, describe, lines_of, part_of, shorten


@value("test.parcel_note")
class Note(Value):
    text: str


class Shelf:
    def __init__(self, *notes: str) -> None:
        self.notes = {number: Note(text=note) for number, note in enumerate(notes)}
        self.names = ["/user/a", "b.c"]


def test_a_state_that_fits_is_printed_on_one_line() -> None:
    assert lines_of(describe(Shelf("a"))) == ["Shelf(names=[/user/a, b.c], notes={0: Note(text=a)})"]


def test_a_state_too_long_for_one_line_is_printed_as_a_tree() -> None:
    assert lines_of(describe(Shelf("a", "b" * 60)), width=50) == [
        "Shelf",
        "  names: [/user/a, b.c]",
        "  notes: 2 items",
        "    [0]: Note(text=a)",
        f"    [1]: Note(text={'b' * 28}...",
    ]


def test_deep_nesting_is_truncated() -> None:
    deep = {"a": {"b": {"c": {"d": "e" * 100}}}}

    assert lines_of(describe(deep), width=30, depth=2) == [
        "1 items",
        "  [a]: 1 items",
        "    [b]: {c: {d: eeeeeeeeee...",
    ]


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("notes[0].text", "a"),
        ("names[1]", "b.c"),
        ("names[2]", Absent.ABSENT),
        ("names.x", Absent.ABSENT),
        ("notes[0].text.x", Absent.ABSENT),
        ("nothing", Absent.ABSENT),
    ],
)
def test_a_value_is_found_by_its_path(path: str, part: object) -> None:
    assert part_of(describe(Shelf("a", "b")), path) == part


def test_the_path_of_a_change_leads_to_its_values() -> None:
    before, after = describe(Shelf("a")), describe(Shelf("b"))

    (change,) = changes(before, after)

    assert part_of(before, change.path) == change.before == "a"
    assert part_of(after, change.path) == change.after == "b"


def test_a_text_that_is_too_long_is_truncated() -> None:
    assert (shorten("abcdef", 6), shorten("abcdefg", 6)) == ("abcdef", "abc...")
