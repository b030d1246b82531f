"""Every view of a trace states which part of the run the trace does not contain."""

from __future__ import annotations

from pathlib import Path

from flykka.messages.wire.ref import Ref
from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.traces.origin import shortcomings
from flykka.traces.trace import Trace
from tests.runtime.scripted_actors import Say, says

ALICE = Ref("/user/alice", 1)


def record_turns(recorder: TraceRecorder, turns: int) -> Trace:
    recorder.open(system="recorded", seed=0)
    for number in range(1, turns + 1):
        recorder.turn(number, 0, ALICE, Envelope(says(f"secret {number}" * 100), None, None), [], None)
    recorder.close()
    return Trace.open(recorder.path)


def test_a_complete_recording_has_no_note(tmp_path: Path) -> None:
    assert list(shortcomings(record_turns(TraceRecorder(tmp_path / "run.trace"), 3))) == []


def test_redacted_messages_are_named(tmp_path: Path) -> None:
    trace = record_turns(TraceRecorder(tmp_path / "run.trace", redact={Say: lambda said: says("***")}), 3)

    assert list(shortcomings(trace)) == ["redacted before they were written: test.say"]
    assert "redacted before they were written: test.say" in trace.to_html()
    assert "redacted before they were written: test.say" in trace.to_mermaid()
    assert "secret" not in trace.to_html()


def test_a_recording_that_reached_its_size_limit_states_its_last_turn(tmp_path: Path) -> None:
    trace = record_turns(TraceRecorder(tmp_path / "run.trace", max_bytes=20_000), 20_000)

    (note,) = shortcomings(trace)

    assert note.startswith("the recording reached its limit of 19.5 KiB: turn ")
    assert note.endswith("and all later turns are missing")
