"""Sequence diagrams: their content for a trace, and that other tools accept the output."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from flykka.errors import TraceSelectionError
from flykka.messages.control.registration import HeartbeatDue, HeartbeatRequest
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ref import Ref
from flykka.traces.diagram import (
    Arrow,
    Collapsed,
    Line,
    View,
    begin_of,
    diagram_of,
    lines_of,
    short_names,
    stream_lines,
)
from flykka.traces.perfetto import perfetto
from flykka.traces.trace import Trace
from tests.flykka.traces.recording import TASK_MANAGER, Recording, coordinator, job_master, record_checkpoint, task_ref
from tests.runtime.scripted_actors import says

ALICE, BOB, EVE = Ref("/user/alice", 1), Ref("/user/bob", 1), Ref("/user/eve", 1)
BOOM = SerializedThrowable(type_name="ValueError", message="boom")


def record_talk(recording: Recording) -> Trace:
    """Record that Alice receives a message from outside and sends a message to Bob; Bob fails, is killed and receives
    no more messages.
    """
    first = recording.turn(ALICE, says("go"), ("send", BOB, says("hello")))
    recording.turn(BOB, says("hello"), sender=ALICE, cause=first, failure=BOOM)
    recording.turn(ALICE, says("tick"), timer=True, cause=first)
    recording.killed(BOB)
    recording.dead_letter(BOB, says("late"), "it was killed")
    return recording.closed()


def line_text(line: Line) -> str:
    if isinstance(line, Collapsed):
        return line.text
    return f"{line.turn} {line.sender} -> {line.recipient} {line.kind} {line.name}"


def test_each_turn_is_an_arrow_from_sender_to_receiver(recording: Recording) -> None:
    trace = record_talk(recording)

    lines = list(lines_of(trace.records(), View()))

    assert [line_text(line) for line in lines] == [
        "1 None -> /user/alice message Say",
        "2 /user/alice -> /user/bob message Say",
        "3 None -> /user/alice timer Say",
        "4 None -> /user/bob killed KILLED",
        "5 None -> /user/bob dead letter Say",
    ]


@pytest.mark.parametrize(
    ("view", "turns"),
    [
        (View(actors=("bob",)), [2, 4, 5]),
        (View(actors=("/user/a*",)), [1, 2, 3]),
        (View(first=2, last=3), [2, 3]),
        (View(actors=("nobody",)), []),
    ],
    ids=str,
)
def test_only_selected_turns_are_drawn(recording: Recording, view: View, turns: list[int]) -> None:
    trace = record_talk(recording)

    lines = list(lines_of(trace.records(), view))

    assert [line.turn for line in lines if isinstance(line, Arrow)] == turns


def test_a_sequence_of_collapsed_messages_is_one_line(recording: Recording) -> None:
    for _ in range(2):
        recording.turn(ALICE, HeartbeatDue(), timer=True)
        recording.turn(BOB, HeartbeatRequest(origin=ALICE), sender=ALICE)
    recording.turn(EVE, says("word"))
    recording.turn(ALICE, HeartbeatDue(), timer=True)
    trace = recording.closed()

    by_name = list(lines_of(trace.records(), View(collapse=("heartbeats",))))
    by_type = list(lines_of(trace.records(), View(collapse=("heartbeat.due",))))

    assert [line_text(line) for line in by_name] == [
        "2 HeartbeatDue, 2 HeartbeatRequest",
        "5 None -> /user/eve message Say",
        "1 HeartbeatDue",
    ]
    assert len(by_type) == 6


def test_names_are_as_short_as_possible() -> None:
    paths = ["/user/tm-1/task/bridge", "/user/tm-1/task", "/user/tm-2/task", "/user/job-0123456789abcdef0123", "/"]

    assert list(short_names(paths).values()) == ["bridge", "tm-1/task", "tm-2/task", "job-012345", "/"]


def test_ids_are_shortened_only_while_they_stay_unique() -> None:
    paths = ["/user/job-0123456789abcdef0001", "/user/job-0123456789abcdef0002"]

    assert list(short_names(paths).values()) == ["job-0123456789abcdef0001", "job-0123456789abcdef0002"]


def test_a_diagram_that_is_too_large_suggests_filters(recording: Recording) -> None:
    trace = record_talk(recording)

    with pytest.raises(TraceSelectionError, match=r"5 turns are too many for this diagram, which takes 3: .*--from"):
        diagram_of(trace, View(), most=3)
    with pytest.raises(TraceSelectionError, match="there is nothing to draw"):
        diagram_of(trace, View(first=99), most=3)


def test_mermaid_has_a_participant_per_actor_and_a_line_per_turn(recording: Recording) -> None:
    trace = record_talk(recording)

    assert trace.to_mermaid().splitlines() == [
        "sequenceDiagram",
        "    %% recording of actor system 'recorded'",
        "    actor outside",
        "    participant a0 as alice",
        "    participant a1 as bob",
        "    outside->>a0: 1 +0.000 Say(text=go)",
        "    a0-xa1: 2 +0.100 Say(text=hello)",
        "    Note over a1: FAILED ValueError: boom",
        "    a0-->>a0: 3 +0.200 Say(text=tick)",
        "    Note over a1: 4 +0.300 KILLED",
        "    outside-xa1: 5 +0.400 Say(text=late)",
    ]


@pytest.mark.parametrize("text", ["a;b", "a#b", "the end of it", 'x"y"', "<b>", "{a}", "100%", "two\nlines"])
def test_texts_are_escaped_for_mermaid(recording: Recording, text: str) -> None:
    recording.turn(Ref(f"/user/{text.split()[0]}", 1), says(text))

    lines = recording.closed().to_mermaid().splitlines()

    assert len(lines) == 5
    said = lines[-1].split(": ", 1)[1]
    assert not re.search(r"[<>\"{}%]|;(?<!\d;)(?<!quot;)(?<!lt;)(?<!gt;)|#(?!\d+;|lt;|gt;|quot;)|\bend\b", said)


class Scripts(HTMLParser):
    """Collects the scripts of a page, and every resource that the page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.fetched: list[str] = []
        self._open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag == "script"
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]
        if self._open:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.scripts[-1] += data


def read_page(page: str) -> tuple[dict[str, Any], Scripts]:
    scripts = Scripts()
    scripts.feed(page)
    return json.loads(scripts.scripts[0]), scripts


def test_the_page_is_self_contained(recording: Recording) -> None:
    page = record_talk(recording).to_html()

    _, scripts = read_page(page)

    assert scripts.fetched == []
    assert len(scripts.scripts) == 2
    assert not re.search(r"https?://|@import|url\(|fetch\(|XMLHttpRequest", page)


def test_the_page_contains_every_turn_with_its_fields_and_its_cause(recording: Recording) -> None:
    data, _ = read_page(record_talk(recording).to_html())

    assert (data["actors"], data["names"], data["types"]) == (
        ["/user/alice", "/user/bob"],
        ["alice", "bob"],
        ["Say", "KILLED"],
    )
    assert data["rows"][1] == [
        2, 100, "message", 0, 1, 0, 1, "Say(text=hello)", {"type": "test.say", "text": "hello"}, [], "ValueError: boom",
    ]  # fmt: skip
    assert data["rows"][0][9] == ["sends Say to /user/bob"]
    assert data["rows"][4][10] == "it was killed"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium to draw the page")
def test_a_browser_draws_the_page_without_an_error(recording: Recording, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(record_talk(recording).to_html(), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=2000"]
    address = f"file://{page}#turn=2"

    drawn_page = subprocess.run(
        ["chromium", *options, "--dump-dom", address], capture_output=True, text=True, timeout=60, check=True
    )

    assert "CONSOLE" not in drawn_page.stderr
    panel = drawn_page.stdout.split("<aside>", 1)[1]
    assert "turn 2, message, +0.100 s" in panel
    assert "ValueError: boom" in panel
    assert "5 of 5 lines" in drawn_page.stdout


def test_no_message_can_close_the_script_that_contains_it(recording: Recording) -> None:
    recording.turn(ALICE, says("</script><script>alert(1)</script><!--"))

    data, scripts = read_page(recording.closed().to_html())

    assert len(scripts.scripts) == 2
    assert data["rows"][0][8]["text"] == "</script><script>alert(1)</script><!--"


def test_huge_values_are_truncated_with_a_note(recording: Recording) -> None:
    recording.turn(ALICE, says("x" * 100_000))

    data, _ = read_page(recording.closed().to_html())

    assert data["rows"][0][8]["text"].endswith("... (100,000 characters)")


def test_a_diagram_may_cover_one_checkpoint(recording: Recording) -> None:
    record_checkpoint(recording, 1)
    recording.turn(ALICE, says("something else"))
    trace = recording.closed()

    data, _ = read_page(trace.to_html(checkpoint=1))

    receivers = {data["actors"][row[4]] for row in data["rows"]}
    assert receivers == {each.path for each in (coordinator(), job_master(), task_ref(0), task_ref(1))}
    assert "Say" not in trace.to_mermaid(checkpoint=1)


def test_perfetto_gets_threads_for_actors_slices_for_turns_and_arrows_for_causes(recording: Recording) -> None:
    trace = record_talk(recording)

    written = json.loads("".join(perfetto("recorded", (), stream_lines(trace, View()), begin_of(trace))))

    events = written["traceEvents"]
    threads = {event["args"]["name"]: event["tid"] for event in events if event["name"] == "thread_name"}
    assert threads == {"/user/alice": 1, "/user/bob": 2}
    slices = {event["args"]["turn"]: event for event in events if event["ph"] == "X"}
    assert {turn: (each["tid"], each["ts"], each["dur"]) for turn, each in slices.items()} == {
        1: (1, 0, 1_000),
        2: (2, 100_000, 1_000),
        3: (1, 200_000, 1_000),
    }
    assert slices[2]["args"]["failure"] == "ValueError: boom"
    flows = [(event["ph"], event["id"], event["tid"], event["ts"]) for event in events if event["ph"] in "sf"]
    assert flows == [("s", 2, 1, 0), ("f", 2, 2, 100_000), ("s", 3, 1, 0), ("f", 3, 1, 200_000)]
    assert [event["name"] for event in events if event["ph"] == "i"] == ["KILLED", "Say"]


def test_turns_in_one_millisecond_do_not_overlap_in_perfetto(recording: Recording) -> None:
    for _ in range(3):
        recording.turn(TASK_MANAGER, says("now"), after_ms=0)
    trace = recording.closed()

    written = json.loads("".join(perfetto("recorded", (), stream_lines(trace, View()), begin_of(trace))))

    slices = [(event["ts"], event["dur"]) for event in written["traceEvents"] if event["ph"] == "X"]
    assert slices == [(0, 1), (1, 1), (2, 1_000)]
