"""Displays of traces in a notebook: all facts are shown, long texts truncated, and user text never becomes markup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from IPython.core.formatters import DisplayFormatter

from flykka.ipython import Bundle
from flykka.notebook import displays
from flykka.notebook.turns import SHOWN_RECORDS, records, trace_bundle, turn_bundle
from flykka.runtime.trace.file.reader import TraceReader
from tests.bad_input.recorded import Note, record_echo
from tests.flykka.notebook.html_reader import Reader

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def trace(tmp_path: Path) -> TraceReader:
    return TraceReader.open(record_echo(tmp_path / "run.trace", words=("hello",)))


def html(bundle: Bundle) -> Reader:
    return Reader(bundle["text/html"])


def test_a_trace_shows_its_origin_and_a_row_for_each_record(trace: TraceReader) -> None:
    page = html(trace_bundle(trace))

    heard = [row for row in page.rows if row[3] == "Note(text=hello)"]
    assert "recording of actor system 'recorded'" in page.text
    assert len(page.rows) == 1 + len([*trace.records()])
    assert [row[2] for row in heard] == ["/user/actor"]
    assert heard[0][5] == "sends Note to /user/actor"


def test_a_long_trace_shows_the_first_turns_and_how_to_continue(tmp_path: Path) -> None:
    long = TraceReader.open(record_echo(tmp_path / "run.trace", words=tuple(map(str, range(50)))))

    page = html(trace_bundle(long))

    assert len(page.rows) == 1 + SHOWN_RECORDS
    assert "`for turn in trace` reads all" in page.text


def test_a_turn_shows_its_message_its_cause_and_its_effects(trace: TraceReader) -> None:
    (first, second) = (turn for turn in trace.turns if isinstance(turn.message, Note))

    page = html(turn_bundle(second))

    assert f"{second.sequence}  /user/actor <- Note(text=" in page.text
    assert f"from /user/actor ({first.sequence})" in page.text
    assert "it had no effects" in page.text


def test_messages_sent_in_a_turn_are_shown_with_their_fields(trace: TraceReader) -> None:
    first = next(turn for turn in trace.turns if isinstance(turn.message, Note))

    assert "sends  /user/actor <- Note(text=" in turn_bundle(first)["text/plain"]
    assert "sends  /user/actor <- Note(text=" in html(turn_bundle(first)).text


def test_a_turn_with_a_thousand_effects_shows_the_first_ones(trace: TraceReader) -> None:
    turn = next(turn for turn in trace if turn.effects)

    bundle = turn_bundle(replace(turn, effects=turn.effects * 1_000))

    assert "... 960 more effects" in bundle["text/plain"]
    assert "... 960 more effects" in html(bundle).text
    assert len(bundle["text/html"]) < 20_000


@pytest.mark.parametrize("bundle", [trace_bundle, lambda trace: turn_bundle(trace.turns[3])], ids=["trace", "turn"])
def test_message_contents_never_become_markup(tmp_path: Path, bundle: Callable[[TraceReader], Bundle]) -> None:
    trace = TraceReader.open(record_echo(tmp_path / "run.trace", words=(EVIL,)))

    page = html(bundle(trace))

    assert "script" not in page.tags
    assert EVIL in page.text


class Shell:
    def __init__(self) -> None:
        self.display_formatter = DisplayFormatter()
        self.magics: dict[str, object] = {}

    def register_magic_function(self, function: object, magic_kind: str, magic_name: str) -> None:
        self.magics[magic_name] = function


def test_ipython_finds_the_display_of_a_trace_by_class_name(
    trace: TraceReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell()
    monkeypatch.setattr(displays, "interactive_shell", lambda: shell)

    displays.register_displays()
    data, _ = shell.display_formatter.format(trace)

    assert data == trace_bundle(trace)


@pytest.mark.parametrize(
    ("address", "display"),
    [*displays.DISPLAYS.items(), *displays.LINES.items()],
    ids=lambda address: address.rpartition(":")[2],
)
def test_every_display_belongs_to_an_existing_class(address: str, display: str) -> None:
    shown = displays.load(address)

    assert isinstance(shown, type)
    # IPython compares these names, and would not find the class under another name.
    assert f"{shown.__module__}:{shown.__qualname__}" == address
    assert callable(displays.load(display))


def test_a_long_id_is_abbreviated_and_complete_in_its_tooltip() -> None:
    identifier = "0123456789abcdef" * 2

    shown = records((("actor", ""),), [(f"/user/job-{identifier}",)])

    assert f'<td><span title="/user/job-{identifier}">/user/job-012345</span></td>' in shown
