"""Displays of replays in a notebook: the outcome, a divergence, and the steps of a session."""

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


def test_a_matching_replay_states_how_much_was_compared(tmp_path: Path) -> None:
    result = TraceReplayer().replay(record_echo(tmp_path / "run.trace", Echo))

    bundle = result_bundle(result)

    assert bundle["text/plain"].startswith(f"replay as recorded: {result.turns} turns")
    assert "as recorded" in html(bundle).text


def test_a_diverged_replay_displays_the_report_with_its_fields(tmp_path: Path) -> None:
    result = TraceReplayer().replay(record_echo(tmp_path / "run.trace", ReadsTheClock))
    assert result.divergence is not None

    page = html(result_bundle(result))

    assert f"diverged at turn {result.divergence.turn.sequence}" in page.text
    assert result.divergence.text() in page.text
    assert ["what differs", "recorded", "now"] in page.rows
    assert html(divergence_bundle(result.divergence)).rows == page.rows


def test_actors_that_were_not_replayed_are_named_with_the_reason(tmp_path: Path) -> None:
    class Hidden(Echo):
        """A class that cannot be imported."""

    result = TraceReplayer().replay(record_echo(tmp_path / "run.trace", Hidden))

    assert "not replayed: /user/actor: " in html(result_bundle(result)).text


def test_a_session_displays_the_surrounding_turns_and_marks_its_own(session: ReplaySession) -> None:
    step = session.run_until(Note, text="two")
    assert step is not None

    page = html(session_bundle(session))

    marked = [row for row in page.rows if row[0] == "▸"]
    assert [row[1] for row in marked] == [str(step.turn.sequence)]
    assert page.rows[-1] == ["_words[1]", "nothing", "two"]


def test_a_session_at_its_start_shows_the_next_turn(session: ReplaySession) -> None:
    shown = session_bundle(session)

    assert "at the beginning" in shown["text/plain"]
    assert "next: " in shown["text/plain"]
    assert "▸" not in html(shown).text


def test_a_step_shows_the_changes_to_the_state_of_its_actor(session: ReplaySession) -> None:
    step = session.run_until(Note, text="three")
    assert step is not None

    bundle = step_bundle(step)

    assert "changed _words[2]: nothing -> three" in bundle["text/plain"]
    assert ["_words[2]", "nothing", "three"] in html(bundle).rows


def test_a_diverged_session_reports_the_position(tmp_path: Path) -> None:
    session = TraceReplayer().session(record_echo(tmp_path / "run.trace", ReadsTheClock))
    session.run_until(Note, text="nobody says this")
    assert session.divergence is not None

    assert session.divergence.text() in html(session_bundle(session)).text


def test_a_state_is_shown_as_a_tree_with_its_class(session: ReplaySession) -> None:
    session.run_until(Note, text="three")

    state = session.state("actor")

    assert isinstance(state, Fields)
    assert state_bundle(state)["text/plain"] == "Counter(_words=[one, two, three])"


def test_each_cause_is_shown_on_one_line_with_turn_message_and_effect(tmp_path: Path) -> None:
    session = TraceReplayer().session(record_echo(tmp_path / "run.trace", Echo))
    session.run_until(Note, text="one")
    session.step()

    (cause,) = session.why()

    assert cause_text(cause).startswith(f"turn {cause.turn.sequence}  /user/actor <- Note(text=one)  by  send")


def test_long_lists_of_changes_and_large_states_are_truncated_with_a_count(tmp_path: Path) -> None:
    session = TraceReplayer().session(record_echo(tmp_path / "run.trace", Crowded))
    step = session.run_until(Note)
    assert step is not None

    shown, state = step_bundle(step), session.state("actor")
    assert isinstance(state, Fields)

    assert "... 970 more changes" in shown["text/plain"]
    assert "... 970 more changes" in html(shown).text
    assert "more lines" in state_bundle(state)["text/plain"]
    assert len(shown["text/html"]) + len(state_bundle(state)["text/html"]) < 100_000
