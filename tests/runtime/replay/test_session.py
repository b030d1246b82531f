"""A session moves forward and back in a trace, and returns every actor's state after each turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flykka.runtime.errors import ReplaySessionError
from flykka.runtime.replay.replayer import TraceReplayer
from flykka.runtime.replay.session import session as session_module
from flykka.runtime.replay.session.session import ReplaySession, Step
from flykka.runtime.trace import effects
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.state.description import State
from flykka.runtime.trace.text import message_name
from tests.runtime.replay import couriers
from tests.runtime.replay.couriers import SCALES, Bring, Parcel, Receipt, Retry, Scales, Weighed

COURIER = "/user/courier-a"
DEPOT = "/user/depot"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> TraceReader:
    return couriers.record_deliveries(tmp_path_factory.mktemp("traces") / "couriers.trace", parcels=40)


@pytest.fixture
def session(trace: TraceReader) -> ReplaySession:
    return TraceReplayer(stand_ins={SCALES: Scales()}).session(trace)


def steps_of(session: ReplaySession) -> Iterator[Step]:
    while (step := session.step()) is not None:
        yield step


def test_a_session_steps_through_every_recorded_turn(session: ReplaySession, trace: TraceReader) -> None:
    steps = list(steps_of(session))

    assert [step.turn.sequence for step in steps] == [turn.sequence for turn in trace.turns]
    assert [step.position for step in steps] == list(range(1, len(steps) + 1))
    assert session.divergence is None


def test_a_turn_reports_its_changes(session: ReplaySession) -> None:
    step = session.run_until(Bring)

    assert step is not None
    assert [str(change) for change in step.changes][:2] == ["tries: 0 -> 1", "waiting[0]: nothing -> 1"]
    assert [type(effect) for effect in step.effects] == [effects.Send, effects.StartTimer]
    assert session.changes == step.changes


def test_a_session_runs_until_a_message_has_specified_values(session: ReplaySession) -> None:
    step = session.run_until(Parcel, number=2)

    assert step is not None
    assert session.turn is step.turn
    assert step.turn.message == Parcel(number=2)


def test_a_session_runs_until_an_actor_gets_a_message(session: ReplaySession) -> None:
    by_class = session.run_until("Courier <- Receipt(number=3)")
    by_path = session.run_until("courier-a <- Receipt", number=4)

    assert by_class is not None
    assert by_class.turn.message == Receipt(number=3)
    assert by_path is not None
    assert by_path.turn.recipient.path == COURIER


def test_a_session_without_a_match_stops_at_the_end_of_the_trace(session: ReplaySession, trace: TraceReader) -> None:
    assert session.run_until(Retry) is None
    assert session.turn == trace.turns[-1]
    assert session.step() is None


def test_stepping_forward_and_back_shows_the_same_states(session: ReplaySession) -> None:
    known: list[tuple[State, list[str]]] = [({}, [])]
    for step in steps_of(session):
        state = session.state(DEPOT) if DEPOT in session.actors() else {}
        known.append((state, [str(change) for change in step.changes]))
    known.append(({}, []))

    for position in (150, 149, 148, 100, 99, 101, 20, 19, 1):
        session.back(session.position - position) if position < session.position else session.step(
            position - session.position
        )

        state = session.state(DEPOT) if DEPOT in session.actors() and session.position > 4 else {}
        assert (state, [str(change) for change in session.changes]) == known[position]


def test_a_session_at_the_beginning_has_no_state(session: ReplaySession) -> None:
    session.step(10)

    assert session.back(99) is None
    assert session.position == 0
    assert session.turn is None
    with pytest.raises(ReplaySessionError, match="is at the beginning"):
        session.state()


def test_stepping_back_and_forward_returns_the_same_step(session: ReplaySession) -> None:
    before = session.step(20)
    after = session.step()

    assert session.back() == before
    assert session.step() == after


def test_a_session_goes_to_a_turn_by_number_in_both_directions(session: ReplaySession, trace: TraceReader) -> None:
    numbers = [turn.sequence for turn in trace.turns]

    for number in (numbers[70], numbers[5], numbers[4], numbers[90]):
        assert session.at(number).turn.sequence == number
        assert session.turn is not None
        assert session.turn.sequence == number


@pytest.mark.parametrize(
    ("number", "said"), [(1, "has no turn 1: the next one is turn 4"), (99_999, "no turn 99999: its last one is turn")]
)
def test_a_turn_number_that_does_not_exist_is_refused_with_the_nearest(
    session: ReplaySession, number: int, said: str
) -> None:
    with pytest.raises(ReplaySessionError, match=said):
        session.at(number)


def test_a_state_contains_the_attributes_of_the_actor(session: ReplaySession) -> None:
    session.run_until("courier-a <- Receipt(number=2)")

    state = session.state()

    assert state == session.state(COURIER) == session.state("courier-a")
    assert isinstance(state, dict)
    assert state["brought"] == 2
    assert state["waiting"] == list(range(3, 41))


def test_an_unknown_actor_is_refused_with_the_list_of_actors(session: ReplaySession) -> None:
    session.run_until(Bring)

    with pytest.raises(
        ReplaySessionError, match=r"no actor lives at /user/cellar at turn 11; there are /user/courier-a, "
    ):
        session.state("cellar")


def test_the_state_of_an_unreplayed_actor_is_refused_with_the_reason(trace: TraceReader) -> None:
    session = TraceReplayer().session(trace)

    session.run_until(Bring)

    with pytest.raises(ReplaySessionError, match=r"/user/depot is not replayed: it contains a Scales"):
        session.state("depot")


def test_why_lists_the_turns_and_effects_that_caused_this_turn(session: ReplaySession) -> None:
    session.run_until("courier-a <- Receipt(number=2)")

    chain = session.why()

    assert [message_name(cause.turn.message) for cause in chain] == ["Parcel", "Receipt", "Parcel", "Bring"]
    assert [cause.effect for cause in chain[:2]] == [
        effects.Send(target=session.turn.recipient, message=Receipt(number=2)),  # type: ignore[union-attr]
        effects.Send(target=chain[0].turn.recipient, message=Parcel(number=2)),
    ]


def test_the_cause_of_a_work_outcome_is_the_starting_actor(session: ReplaySession) -> None:
    session.run_until(Weighed)

    assert isinstance(session.why()[0].effect, effects.Pipe)


def test_upcoming_turns_can_be_listed_before_they_are_replayed(session: ReplaySession, trace: TraceReader) -> None:
    numbers = [turn.sequence for turn in trace.turns]
    session.step(30)

    assert [turn.sequence for turn in session.upcoming(3)] == numbers[30:33]
    session.back(2)
    assert [turn.sequence for turn in session.upcoming(4)] == numbers[28:32]
    assert [turn.sequence for turn in session.recent(2)] == numbers[26:28]


def test_a_session_stops_at_the_first_divergence(session: ReplaySession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(couriers, "RETRY_MS", 999)

    step = session.run_until("courier-a <- Receipt(number=7)")

    assert session.divergence is not None
    assert step is not None
    assert step.turn.message == Bring(parcels=40)
    assert session.divergence.turn == step.turn
    assert step.changes


def test_a_trace_without_turns_has_a_session(tmp_path: Path) -> None:
    path = tmp_path / "empty.trace"
    whole = couriers.record_deliveries(tmp_path / "whole.trace").path.read_bytes()
    header_length = 8 + int.from_bytes(whole[:4], "little")
    path.write_bytes(whole[:header_length])

    session = TraceReplayer().session(path)

    assert session.step() is None
    assert session.run_until(Bring) is None
    assert session.upcoming() == []
    assert session.why() == []


def test_several_steps_stop_at_the_first_divergence(session: ReplaySession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(couriers, "RETRY_MS", 999)

    far = session.step(1_000)
    session.back(3)
    near = session.step(20)

    assert session.divergence is not None
    assert far is not None
    assert near is not None
    assert far.turn == near.turn == session.divergence.turn


def test_a_jump_over_many_steps_describes_only_retained_states(
    session: ReplaySession, trace: TraceReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    described: list[object] = []
    monkeypatch.setattr(session_module, "describe", described.append)

    session.step(len(trace.turns) - 5)

    assert session.position == len(trace.turns) - 5
    assert len(described) <= 2 * session_module._KEPT
