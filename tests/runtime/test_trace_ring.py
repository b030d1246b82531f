"""A ring retains the last turns, begins with a snapshot of the actors, and can be replayed."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path

import pytest

from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.replay.replayer import TraceReplayer
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.runtime.trace.records import Ring
from tests.runtime.scripted_actors import Say, replies, says, scripted_actor

pytestmark = pytest.mark.slow


@dataclass
class Notes:
    words: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    last: deque[str] = field(default_factory=lambda: deque(maxlen=3))
    owner: Clerk | None = None


class Clerk(Actor):
    """Has attributes of many types, and answers with its state."""

    def __init__(self, reports_to: Ref, notes: Notes | None = None) -> None:
        self._reports_to = reports_to
        self._notes = notes or Notes()
        self._notes.owner = self
        self._by_word: dict[str, Notes] = {"all": self._notes}
        self._numbers = count(1)
        self._handler: Callable[[str], None] = self._note
        self._helper: Ref | None = None

    def pre_start(self) -> None:
        self._helper = self.context.spawn(Props(Helper), "helper")
        self.context.watch(self._helper)
        self.context.timers.start_fixed_delay("beat", 70, says("beat"))

    def handle_message(self, message: Message) -> None:
        assert isinstance(message, Say)
        if message.text == "sleep":
            self.context.become(self._asleep)
            return
        self._handler(message.text)

    def _note(self, word: str) -> None:
        notes = self._by_word["all"]
        notes.words.append(word)
        notes.counts[word] += 1
        notes.last.append(word)
        assert notes.owner is self
        number = next(self._numbers)
        token = self.context.new_id("token")
        lot = self.context.random.randrange(1_000_000)
        self._reports_to.tell(says(f"{number} {word} {notes.counts[word]} {token} {lot} {list(notes.last)}"))
        if self._helper is not None and number % 3 == 0:
            self._helper.tell(says(word))

    def _asleep(self, message: Message) -> None:
        if message == says("wake"):
            self.context.unstash_all()
            self.context.become(self.handle_message)
        else:
            self.context.stash()


class Helper(Actor):
    def __init__(self) -> None:
        self.count = 0

    def handle_message(self, message: Message) -> None:
        self.count += 1
        if self.count % 10 == 0:
            self.context.parent.tell(says(f"ten {self.count}"))


def work(system: SeededSystem, rounds: int) -> None:
    clerk = system.find("/user/clerk")
    assert clerk is not None
    for number in range(rounds):
        clerk.tell(says(f"w{number % 7}"))
        if number % 11 == 5:
            clerk.tell(says("sleep"))
        if number % 11 == 9:
            clerk.tell(says("wake"))
        system.advance(10)


def office(path: Path, ring: int, rounds: int) -> None:
    with SeededSystem(5, name="office", recorder=TraceRecorder(path, ring=ring, digests=True)) as system:
        boss = system.spawn(scripted_actor([]), "boss")
        system.spawn(Props(Clerk, boss), "clerk")
        system.spawn(scripted_actor([]), "idle")
        work(system, rounds)


def test_a_run_shorter_than_the_ring_is_recorded_completely(tmp_path: Path) -> None:
    office(tmp_path / "run.trace", ring=10_000, rounds=5)

    trace = TraceReader.open(tmp_path / "run.trace")
    assert trace.header.ring == Ring(limit=10_000, not_kept=0, begins_at=1)
    assert not list(trace.snapshots())
    assert min(record.sequence for record in trace.records()) == 1
    assert trace.truncated is None


def test_a_ring_keeps_between_n_and_two_n_records(tmp_path: Path) -> None:
    office(tmp_path / "run.trace", ring=100, rounds=300)

    trace = TraceReader.open(tmp_path / "run.trace")
    sequences = [record.sequence for record in trace.records()]
    assert trace.header.ring is not None
    assert trace.header.ring.begins_at == min(sequences)
    assert trace.header.ring.not_kept == min(sequences) - 1 > 0
    assert 100 <= max(sequences) - min(sequences) + 1 <= 200


def test_a_ring_replays_from_its_snapshots(tmp_path: Path) -> None:
    office(tmp_path / "run.trace", ring=100, rounds=300)

    trace = TraceReader.open(tmp_path / "run.trace")
    result = TraceReplayer(modules=[__name__]).replay(tmp_path / "run.trace", raise_on_divergence=True)

    assert {snapshot.ref.path for snapshot in trace.snapshots()} >= {"/", "/user", "/user/clerk", "/user/clerk/helper"}
    assert result.divergence is None
    assert result.compared >= 80
    assert not [reason for reason in result.boundary if "clerk" in reason]


@pytest.mark.parametrize("ring", [101, *(pytest.param(ring, marks=pytest.mark.long) for ring in (37, 60, 250))])
def test_a_ring_replays_from_any_first_turn(tmp_path: Path, ring: int) -> None:
    office(tmp_path / "run.trace", ring=ring, rounds=200)

    result = TraceReplayer(modules=[__name__]).replay(tmp_path / "run.trace", raise_on_divergence=True)

    assert result.divergence is None
    assert result.compared > 0


class Locked(Actor):
    def __init__(self) -> None:
        self._secret = (lambda: None, "x")

    def handle_message(self, message: Message) -> None: ...


def test_an_unrecordable_state_is_reported_with_actor_and_attribute(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with SeededSystem(5, recorder=TraceRecorder(path, ring=10)) as system:
        ref = system.spawn(Props(Locked), "locked")
        for _ in range(50):
            ref.tell(says("x"))
        system.run_until_idle()

    (locked,) = [each for each in TraceReader.open(path).snapshots() if each.ref == ref]
    assert locked.state is None
    assert locked.reason is not None
    assert "_secret[0] is a builtins:function" in locked.reason
    assert any("/user/locked" in each for each in TraceReplayer(modules=[__name__]).replay(path).boundary)


class Lookout:
    """Accesses an external object at the first call."""

    outside_state = True

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def view(self) -> Callable[[], str]:
        """Return an object that cannot be written to a trace."""
        return lambda: self.name


class Watchman(Actor):
    def __init__(self, reports_to: Ref) -> None:
        self._reports_to = reports_to
        self._lookout = Lookout("tower")
        self._lookout.view()

    def handle_message(self, message: Message) -> None:
        self._reports_to.tell(says(self._lookout.name))


def test_an_object_with_external_resources_is_recorded_without_them(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with SeededSystem(5, recorder=TraceRecorder(path, ring=20)) as system:
        ref = system.spawn(Props(Watchman, system.spawn(scripted_actor([]), "a")), "watchman")
        for _ in range(50):
            ref.tell(says("x"))
        system.run_until_idle()

    result = TraceReplayer(modules=[__name__]).replay(path, raise_on_divergence=True)

    assert result.compared > 10
    assert not [reason for reason in result.boundary if "watchman" in reason]


class Prickly:
    """A dictionary key that cannot be printed."""

    __slots__ = ()

    def __repr__(self) -> str:
        raise RuntimeError("do not show me")


class Handler(Actor):
    def __init__(self) -> None:
        self._by_key = {Prickly(): "x"}

    def handle_message(self, message: Message) -> None: ...


def test_an_object_that_cannot_be_inspected_does_not_fail_a_turn(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with SeededSystem(5, recorder=TraceRecorder(path, ring=10)) as system:
        ref = system.spawn(Props(Handler), "handler")
        for _ in range(50):
            ref.tell(says("x"))
        system.run_until_idle()
        assert ref.is_alive()

    (handler,) = [each for each in TraceReader.open(path).snapshots() if each.ref == ref]
    assert handler.reason is not None
    assert "its attributes cannot be read (RuntimeError: do not show me)" in handler.reason


def test_a_dump_writes_the_retained_turns_while_the_system_runs(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    recorder = TraceRecorder(path, ring=50)
    with SeededSystem(5, recorder=recorder) as system:
        system.spawn(Props(Clerk, system.spawn(scripted_actor([]), "boss")), "clerk")
        work(system, 100)
        recorder.dump()
        first = [record.sequence for record in TraceReader.open(path).records()]
        work(system, 100)
        assert TraceReader.open(path).truncated is None
        assert [record.sequence for record in TraceReader.open(path).records()] == first

    assert min(record.sequence for record in TraceReader.open(path).records()) > max(first)


def test_an_archive_is_written_at_the_end_and_replaces_older_runs(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    path.write_bytes(b"of another run")
    with SeededSystem(5, recorder=TraceRecorder(path, ring=50)) as system:
        system.spawn(scripted_actor([]), "a")
        assert path.stat().st_size == 0

    assert list(TraceReader.open(path))
    assert [file.name for file in tmp_path.iterdir()] == ["run.trace"]


@pytest.mark.parametrize(("ring", "max_bytes"), [(0, None), (-1, None), (10, 10)])
def test_a_ring_size_excludes_other_limits(tmp_path: Path, ring: int, max_bytes: int | None) -> None:
    with pytest.raises(ValueError, match="a ring is limited by its number of records"):
        TraceRecorder(tmp_path / "run.trace", ring=ring, max_bytes=max_bytes)


def test_a_ring_recorded_on_threads_can_be_replayed(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with ActorSystem("threads", recorder=TraceRecorder(path, ring=500)) as system:
        bosses = [system.spawn(scripted_actor([], {"sync": replies}), f"boss-{number}") for number in range(3)]
        clerks = [system.spawn(Props(Clerk, boss), f"clerk-{boss.path[-1]}") for boss in bosses]
        for number in range(400):
            for clerk in clerks:
                clerk.tell(says(f"w{number % 5}"))
        for boss in bosses:
            boss.ask(says("sync"), timeout=10)
        for clerk in clerks:
            clerk.stop(timeout=10)

    result = TraceReplayer(modules=[__name__, "tests.runtime.scripted_actors"]).replay(path, raise_on_divergence=True)

    assert result.divergence is None
    assert result.compared > 100
