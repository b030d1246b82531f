"""Displays of replays in a notebook: their outcome, their divergence from the record, and a walk through one."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.ipython import Bundle
from flykka.notebook.runs import divergence_bundle, result_bundle
from flykka.notebook.turns import cause_text, session_bundle, state_bundle, step_bundle
from flykka.runtime.replay.replayer import TraceReplayer
from flykka.runtime.replay.session.session import ReplaySession
from flykka.runtime.trace.state.description import Fields
from tests.bad_input.recorded import Counter, Crowded, Echo, Note, ReadsTheClock, record_echo
from tests.flykka.notebook.html_reader import Reader


@pytest.fixture
def session(tmp_path: Path) -> ReplaySession:
    return TraceReplayer().session(record_echo(tmp_path / "run.trace", Counter))


def html(bundle: Bundle) -> Reader:
    return Reader(bundle["text/html"])


def test_a_replay_that_is_as_recorded_says_how_much_was_compared(tmp_path: Path) -> None:
    result = TraceReplayer().replay(record_echo(tmp_path / "run.trace", Echo))

    bundle = result_bundle(result)

    assert bundle["text/plain"].startswith(f"replay as recorded: {result.turns} turns")
    assert "as recorded" in html(bundle).text


def test_a_replay_that_has_diverged_shows_the_report_with_its_fields(tmp_path: Path) -> None:
    result = TraceReplayer().replay(record_echo(tmp_path / "run.trace", ReadsTheClock))
    assert result.divergence is not None

    shown = html(result_bundle(result))

    assert f"diverged at turn {result.divergence.turn.sequence}" in shown.text
    assert result.divergence.text() in shown.text
    assert ["what differs", "recorded", "now"] in shown.rows
    assert html(divergence_bundle(result.divergence)).rows == shown.rows


def test_what_was_not_replayed_is_named_with_the_reason(tmp_path: Path) -> None:
    class Hidden(Echo):
        """A class that cannot be imported."""

    result = TraceReplayer().replay(record_echo(tmp_path / "run.trace", Hidden))

    assert "not replayed: /user/actor: " in html(result_bundle(result)).text


def test_a_session_shows_the_turns_around_it_and_marks_its_own(session: ReplaySession) -> None:
    step = session.run_until(Note, text="two")
    assert step is not None

    shown = html(session_bundle(session))

    marked = [row for row in shown.rows if row[0] == "▸"]
    assert [row[1] for row in marked] == [str(step.turn.sequence)]
    assert shown.rows[-1] == ["_words[1]", "nothing", "two"]


def test_a_session_at_its_beginning_shows_what_comes_next(session: ReplaySession) -> None:
    shown = session_bundle(session)

    assert "at the beginning" in shown["text/plain"]
    assert "next: " in shown["text/plain"]
    assert "▸" not in html(shown).text


def test_a_step_shows_what_the_turn_changed_of_its_actor(session: ReplaySession) -> None:
    step = session.run_until(Note, text="three")
    assert step is not None

    bundle = step_bundle(step)

    assert "changed _words[2]: nothing -> three" in bundle["text/plain"]
    assert ["_words[2]", "nothing", "three"] in html(bundle).rows


def test_a_session_that_has_diverged_says_so_where_it_has(tmp_path: Path) -> None:
    session = TraceReplayer().session(record_echo(tmp_path / "run.trace", ReadsTheClock))
    session.run_until(Note, text="nobody says this")
    assert session.divergence is not None

    assert session.divergence.text() in html(session_bundle(session)).text


def test_a_state_is_shown_as_a_tree_with_the_class_it_is_of(session: ReplaySession) -> None:
    session.run_until(Note, text="three")

    state = session.state("actor")

    assert isinstance(state, Fields)
    assert state_bundle(state)["text/plain"] == "Counter(_words=[one, two, three])"


def test_a_cause_is_a_line_with_what_led_on(tmp_path: Path) -> None:
    session = TraceReplayer().session(record_echo(tmp_path / "run.trace", Echo))
    session.run_until(Note, text="one")
    session.step()

    (cause,) = session.why()

    assert cause_text(cause).startswith(f"turn {cause.turn.sequence}  /user/actor <- Note(text=one)  by  send")


def test_of_many_changes_and_a_large_state_the_first_are_shown_and_how_many_more_there_are(tmp_path: Path) -> None:
    session = TraceReplayer().session(record_echo(tmp_path / "run.trace", Crowded))
    step = session.run_until(Note)
    assert step is not None

    shown, state = step_bundle(step), session.state("actor")
    assert isinstance(state, Fields)

    assert "... 970 more changes" in shown["text/plain"]
    assert "... 970 more changes" in html(shown).text
    assert "more lines" in state_bundle(state)["text/plain"]
    assert len(shown["text/html"]) + len(state_bundle(state)["text/html"]) < 100_000
