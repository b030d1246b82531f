"""Random actor trees with the events of two hundred seeds, and on real threads."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import Counter

import pytest
from pykka import ActorRegistry

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime import pykka_seam
from flykka.runtime.dispatch.pool import SharedPool
from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.props import Props
from flykka.runtime.recording import Effect, Recorder
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.model.creatures import spawn
from tests.runtime.model.laws import LawRecords
from tests.runtime.model.messages import Do, Question

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_log_of_failures")]

QUICK_SEEDS = 20
SEEDS = 200
ROUNDS_ON_THREADS = 30


def play(seed: int, rounds: int = 150, recorder: Recorder | None = None) -> LawRecords:
    """Run one model completely. It performs about two thousand steps, and further steps within turns that wait."""
    records = LawRecords(seed)
    dice = records.dice
    system = SeededSystem(seed, serialize_messages=seed % 4 == 0, recorder=recorder)
    records.attach(system)
    for _ in range(rounds):
        while records.living < 10:
            spawn(records, system)
        for _ in range(4):
            speak = records.tell if dice.random() < 0.8 else records.ask
            speak(records.someone(), None, dice.randrange(8))
        for _ in range(dice.randrange(40)):
            system.schedule.step()
        if dice.random() < 0.3:
            system.run_until_idle()
            system.advance(dice.randrange(40))
            records.check_at_rest(system)
    if dice.random() < 0.5:
        records.calm = True
        system.advance(10_000)
        records.check_at_rest(system)
    system.terminate().wait(timeout=60)
    assert system.manual_clock.next_due() is None, "an alarm was kept"
    records.check_ended(system)
    return records


@pytest.mark.parametrize(
    "seed",
    [*range(QUICK_SEEDS), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(QUICK_SEEDS, SEEDS))],
)
def test_the_laws_of_the_kernel_hold_in_any_order(seed: int) -> None:
    records = play(seed)

    again = f"python -m pytest 'tests/runtime/test_model.py::test_the_laws_of_the_kernel_hold_in_any_order[{seed}]'"
    assert not records.broken, f"seed {seed}; again: {again}"


@pytest.mark.parametrize("seed", [3, 4])
def test_the_same_seed_generates_the_same_model_run(seed: int) -> None:
    first, again = (play(seed, rounds=50) for _ in range(2))

    assert first.happened == again.happened
    assert len(first.happened) > 500


class Witness(Recorder):
    """A recorder that checks the records that it gets."""

    def __init__(self) -> None:
        self.sent: Counter[int] = Counter()
        self.last: dict[Ref, int] = {}
        self.killed_at: dict[Ref, int] = {}
        self.sequences: set[int] = set()
        self.broken: list[str] = []

    def open(self, *, system: str, seed: int) -> None: ...

    def turn(
        self,
        sequence: int,
        now_ms: int,
        recipient: Ref,
        envelope: Envelope,
        effects: list[Effect],
        failure: SerializedThrowable | None,
    ) -> None:
        if sequence in self.sequences or sequence <= self.last.get(recipient, 0):
            self.broken.append(f"turns have numbers in their order: {recipient} {sequence}")
        if sequence > self.killed_at.get(recipient, sequence):
            self.broken.append(f"no turn behind the kill: {recipient} {sequence}")
        if envelope.cause is not None and envelope.cause >= sequence:
            self.broken.append(f"a cause comes first: {recipient} {sequence}")
        self.last[recipient] = sequence
        self.sequences.add(sequence)
        for effect in effects:
            if effect[0] == "send" and isinstance(effect[2], Do | Question):
                self.sent[effect[2].token] += 1

    def spawned(self, sequence: int, now_ms: int, ref: Ref, parent: Ref, props: Props) -> None: ...

    def killed(self, sequence: int, now_ms: int, ref: Ref) -> None:
        self.killed_at[ref] = sequence

    def dead_letter(
        self, sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
    ) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(
    "seed", [SEEDS, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(SEEDS + 1, SEEDS + 5))]
)
def test_a_trace_contains_everything_that_turns_send(seed: int) -> None:
    witness = Witness()

    records = play(seed, recorder=witness)

    assert not witness.broken
    assert not records.broken
    assert set(witness.sent.values()) == {1}
    by_actors = {token for token in records.arrived if records.spoken_by[token] != threading.current_thread().name}
    assert by_actors <= set(witness.sent)
    assert len(by_actors) > 100


def test_an_ended_system_is_garbage_collected() -> None:
    records = play(SEEDS + 10, rounds=50)
    cells = [weakref.ref(ref.actor_inbox.owner) for ref in records.refs]
    pykka_seam.sweep()
    assert not {id(ref) for ref in records.refs} & {id(ref) for ref in ActorRegistry.get_all()}

    del records
    gc.collect()

    assert not [cell for cell in cells if cell() is not None]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_the_laws_of_the_kernel_hold_on_threads(seed: int) -> None:
    records = LawRecords(seed, exact=False)
    system = ActorSystem("threads", seed=seed, dispatcher=SharedPool(3, throughput=2))
    records.attach(system)

    def speaks() -> None:
        for _ in range(ROUNDS_ON_THREADS):
            while records.living < 10:
                spawn(records, system)
            for _ in range(8):
                speak = records.tell if records.dice.random() < 0.8 else records.ask
                speak(records.someone(), None, records.dice.randrange(8))
            # Each ask from outside is answered after all earlier messages, which limits the rate of sending.
            records.ask_and_wait(records.someone())

    speakers = [threading.Thread(target=speaks, name=f"speaker {number}") for number in range(2)]
    for speaker in speakers:
        speaker.start()
    for speaker in speakers:
        speaker.join()
    records.calm = True
    system.terminate().wait(timeout=30)
    records.check_ended(system)

    assert not records.broken
    assert len(records.arrived) > 200
