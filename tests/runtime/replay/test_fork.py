"""A fork continues from a recorded turn, with or without a fault, and uses recorded replies as long as they match."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flykka.messages.kernel.blocking_work import BlockingWork
from flykka.messages.wire.ref import Ref
from flykka.runtime.errors import ForkError
from flykka.runtime.replay.fork.fork import Fork
from flykka.runtime.replay.fork.trace import ForkTraceRecorder
from flykka.runtime.replay.replayer import TraceReplayer
from flykka.runtime.replay.session.session import ReplaySession
from flykka.runtime.signals import Terminated
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.runtime.trace.records import Killed, Record, Turn
from tests.runtime.replay import couriers
from tests.runtime.replay.couriers import SCALES, Bring, Courier, Depot, Receipt, Scales

COURIERS = ("/user/courier-a", "/user/courier-b")
PARCELS = 5
KEPT = {path: list(range(1, PARCELS + 1)) for path in COURIERS}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> TraceReader:
    return couriers.record_deliveries(tmp_path_factory.mktemp("traces") / "couriers.trace", parcels=PARCELS)


@pytest.fixture
def session(trace: TraceReader) -> ReplaySession:
    """A session in which every actor is replayed."""
    return TraceReplayer(stand_ins={SCALES: Scales()}).session(trace)


@pytest.fixture
def outside(trace: TraceReader) -> ReplaySession:
    """A session in which the depot is not replayed."""
    return TraceReplayer().session(trace)


def weigh(work: BlockingWork, do: Callable[[], object]) -> object:
    assert work.function == "<lambda>"
    return do()


def instance(fork: Fork, path: str) -> object:
    cell = fork.system.cells.find(path)
    return None if cell is None else cell.instance


def parcels_in_depot(fork: Fork) -> dict[str, list[int]]:
    depot = instance(fork, "/user/depot")
    assert isinstance(depot, Depot)
    return {ref.path: parcels for ref, parcels in sorted(depot.kept.items(), key=lambda each: each[0].path)}


def brought(fork: Fork) -> list[int]:
    actors = [instance(fork, path) for path in COURIERS]
    return [actor.brought for actor in actors if isinstance(actor, Courier)]


def test_a_fork_without_a_fault_ends_equally_from_every_turn(session: ReplaySession, trace: TraceReader) -> None:
    shutdown = next(turn.sequence for turn in trace if turn.recipient.path == "/user" and turn.sequence > 10)
    for turn in trace.turns:
        if turn.sequence < shutdown:
            session.at(turn.sequence)
            fork = session.fork()

            run = fork.run()

            assert (run.ended, run.silent) == ("nothing is left to do", {})
            assert parcels_in_depot(fork) == KEPT
            depot = instance(fork, "/user/depot")
            assert isinstance(depot, Depot)
            assert depot.grams == 2 * 100 * sum(range(1, PARCELS + 1))


def test_a_fork_with_an_unreplayed_actor_ends_as_recorded(outside: ReplaySession, trace: TraceReader) -> None:
    for turn in trace.turns[:-10]:
        outside.at(turn.sequence)
        fork = outside.fork()

        run = fork.run()

        assert (run.ended, run.silent) == ("nothing is left to do", {})
        assert brought(fork) == [PARCELS, PARCELS]


def test_a_fork_without_a_fault_runs_the_recorded_turns_in_order(session: ReplaySession, trace: TraceReader) -> None:
    step = session.run_until("Depot <- Parcel(number=2)")
    assert step is not None
    records: list[Record] = []

    session.fork().run(observer=records.append)

    recorded = [(turn.recipient, turn.message) for turn in trace.turns if turn.sequence >= step.turn.sequence]
    taken = [(record.recipient, record.message) for record in records if isinstance(record, Turn)]
    assert taken == recorded[: len(taken)]


def test_a_dropped_parcel_is_brought_again(session: ReplaySession) -> None:
    session.run_until("Depot <- Parcel(number=2)")
    fork = session.fork()

    fork.drop()
    run = fork.run()

    assert parcels_in_depot(fork) == KEPT
    assert run.duration_ms == couriers.RETRY_MS


def test_a_delayed_parcel_arrives_twice_after_a_retry(session: ReplaySession) -> None:
    step = session.run_until("Depot <- Parcel(number=2)")
    assert step is not None
    assert step.turn.sender is not None
    fork = session.fork(unrecorded=weigh)

    fork.delay("5s")
    run = fork.run()

    assert run.duration_ms == 5_000
    assert run.silent == {}
    assert parcels_in_depot(fork)[step.turn.sender.path] == [*range(1, PARCELS + 1), 2]


def test_a_duplicated_message_is_handled_twice(session: ReplaySession) -> None:
    step = session.run_until("Depot <- Parcel(number=2)")
    assert step is not None
    assert step.turn.sender is not None
    fork = session.fork(unrecorded=weigh)

    fork.duplicate()
    fork.run()

    assert parcels_in_depot(fork)[step.turn.sender.path] == [1, 2, 2, *range(3, PARCELS + 1)]


def test_watchers_are_notified_of_an_injected_crash(session: ReplaySession, outside: ReplaySession) -> None:
    for each in (session, outside):
        each.run_until("courier-a <- Receipt(number=2)")
        fork = each.fork()
        records: list[Record] = []

        fork.crash("depot")
        fork.run(observer=records.append)

        assert [record.ref.path for record in records if isinstance(record, Killed)] == ["/user/depot"]
        paths = [record.recipient.path for record in records if isinstance(record, Turn) and is_terminated(record)]
        assert sorted(paths) == list(COURIERS)
        assert max(brought(fork)) < PARCELS


def is_terminated(turn: Turn) -> bool:
    return isinstance(turn.message, Terminated)


def test_self_messages_of_an_unreplayed_actor_can_only_be_dropped(outside: ReplaySession) -> None:
    outside.run_until("depot <- Weighed")
    fork = outside.fork()

    for fault in (fork.duplicate, lambda: fork.delay("1s")):
        with pytest.raises(ForkError, match=r"handles a message that /user/depot sent to itself .* only dropped"):
            fault()
    fork.drop()
    run = fork.run()

    assert run.silent == {}
    assert brought(fork) == [PARCELS, PARCELS]


def test_a_ring_recording_can_be_forked_near_its_beginning(tmp_path: Path) -> None:
    trace = couriers.record_deliveries(tmp_path / "ring.trace", parcels=PARCELS, ring=12)
    session = TraceReplayer(stand_ins={SCALES: Scales()}).session(trace)
    session.step(3)
    fork = session.fork()

    run = fork.run()

    assert trace.header.ring is not None
    assert (run.ended, run.silent) == ("nothing is left to do", {})
    assert parcels_in_depot(fork) == KEPT


def test_a_dropped_timer_message_never_arrives(tmp_path: Path) -> None:
    trace = couriers.record_deliveries(tmp_path / "slow.trace", lost=1)
    session = TraceReplayer(stand_ins={SCALES: Scales()}).session(trace)
    session.run_until("Courier <- Retry")
    fork = session.fork()

    fork.drop()
    fork.run()

    assert min(brought(fork)) < max(brought(fork))


def test_a_fork_does_not_change_its_session(session: ReplaySession) -> None:
    step = session.run_until("Courier <- Receipt(number=2)")
    assert step is not None
    state = session.state()

    for _ in range(2):
        fork = session.fork()
        fork.drop()
        fork.run()

    assert session.here == step
    assert session.state() == state


def test_unanswered_messages_of_a_fork_are_reported(outside: ReplaySession) -> None:
    outside.run_until("depot <- Parcel(number=2)")
    fork = outside.fork()

    fork.duplicate()
    run = fork.run()

    assert run.silent == {"/user/depot": "Parcel(number=2)"}
    assert brought(fork) == [PARCELS, PARCELS]


def test_a_fork_ends_at_the_specified_turn(session: ReplaySession) -> None:
    session.run_until(Bring)
    fork = session.fork()

    run = fork.run("1m", until=lambda record: isinstance(record, Turn) and record.message == Receipt(number=2))

    assert run.ended == "the condition is met"
    assert max(brought(fork)) == 2


def test_a_fork_writes_its_own_trace(session: ReplaySession, tmp_path: Path) -> None:
    step = session.run_until("Depot <- Parcel(number=2)")
    assert step is not None
    recorder = TraceRecorder(tmp_path / "fork.trace")
    recorder.open(system="fork", seed=0)
    fork = session.fork()

    fork.drop()
    run = fork.run(recorder=recorder)
    recorder.close()

    turns = TraceReader.open(tmp_path / "fork.trace").turns
    assert len(turns) == run.turns
    assert turns[0].sequence >= step.turn.sequence
    assert [turn.sequence for turn in turns] == sorted({turn.sequence for turn in turns})


def test_the_trace_of_a_fork_replays_with_its_parent_recording(
    session: ReplaySession, trace: TraceReader, tmp_path: Path
) -> None:
    for number in [turn.sequence for turn in trace.turns][::5]:
        session.at(number)
        fork = session.fork()
        recorder = ForkTraceRecorder(tmp_path / "fork.trace", trace, number)
        recorder.open(system="fork", seed=0)
        run = fork.run(recorder=recorder)
        recorder.close()

        result = TraceReplayer(stand_ins={SCALES: Scales()}).replay(tmp_path / "fork.trace", raise_on_divergence=True)

        before = [turn for turn in trace if turn.sequence < number]
        assert result.turns == len(before) + run.turns
        assert TraceReader.open(tmp_path / "fork.trace").turns[: len(before)] == sorted(
            before, key=lambda it: it.sequence
        )


def test_a_fork_cannot_overwrite_the_recorded_trace(trace: TraceReader) -> None:
    with pytest.raises(ForkError, match="is the recorded run itself: a fork of it needs another file"):
        ForkTraceRecorder(trace.path, trace, 5)


def test_forks_with_the_same_fault_are_equal(session: ReplaySession) -> None:
    session.run_until("Depot <- Parcel(number=2)")
    runs: list[list[Record]] = [[], []]

    for records in runs:
        fork = session.fork()
        fork.drop()
        fork.run(observer=records.append)

    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda fork: fork.drop(), "turn 5 handles the kernel's Create, which cannot be dropped"),
        (lambda fork: fork.delay("5s"), "which cannot be delayed"),
        (lambda fork: fork.duplicate(), "which cannot be sent twice"),
        (lambda fork: fork.crash("cellar"), "no actor lives at /user/cellar at turn 5; there are /user/courier-a, "),
        (lambda fork: fork.crash("/"), "/ cannot die alone: it is the whole system"),
        (lambda fork: fork.crash("/user"), "/user cannot die alone: it is the whole system"),
        (lambda fork: fork.tell("/user/x", Bring(parcels=1)), "no actor lives at /user/x at turn 5"),
        (lambda fork: (fork.run(), fork.run()), "a fork runs only once"),
    ],
)
def test_an_impossible_fault_is_refused_with_the_reason(
    session: ReplaySession, act: Callable[[Fork], object], said: str
) -> None:
    session.at(5)
    fork = session.fork()

    with pytest.raises(ForkError, match=said):
        act(fork)


def test_a_fork_at_the_end_refuses_to_drop_the_kernels_stop(session: ReplaySession, trace: TraceReader) -> None:
    session.at(trace.turns[-1].sequence)
    fork = session.fork()

    with pytest.raises(ForkError, match="handles the kernel's Stop"):
        fork.drop()
    assert isinstance(fork.turn, Turn)
    assert fork.turn.recipient == Ref("/", 1)
