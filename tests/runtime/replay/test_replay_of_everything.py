"""Random actors are recorded in virtual time and on threads, and their replays equal the recordings."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pykka
import pytest

from flykka.runtime.context import ActorContext
from flykka.runtime.errors import KernelError
from flykka.runtime.mailbox.message_queue import BoundedMailbox
from flykka.runtime.ref import ActorRef
from flykka.runtime.replay.replayer import TraceReplayer
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.runtime.replay.random_actors import Question, spawn_random_actors
from tests.runtime.scripted_actors import says, scripted_actor

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_log_of_failures")]

SEEDS = 20
SEEDS_ON_THREADS = 12


@pytest.mark.parametrize("seed", range(SEEDS))
def test_recordings_in_virtual_time_replay(tmp_path: Path, seed: int) -> None:
    with SeededSystem(seed, recorder=TraceRecorder(tmp_path / "run.trace"), serialize_messages=seed % 2 == 0) as system:
        spawn_random_actors(system, seed)
        system.advance(300)

    result = TraceReplayer().replay(tmp_path / "run.trace", raise_on_divergence=True)

    assert (result.compared, result.boundary) == (result.turns, ())


@pytest.mark.parametrize("seed", range(SEEDS_ON_THREADS))
def test_recordings_on_threads_replay(tmp_path: Path, seed: int) -> None:
    recorder = TraceRecorder(tmp_path / "run.trace")
    with ActorSystem("threads", seed=seed, recorder=recorder, serialize_messages=seed % 2 == 0) as system:
        for ref in spawn_random_actors(system, seed) * 4:
            with suppress(KernelError):
                ref.ask(Question(seed=seed), timeout=0.01)

    result = TraceReplayer().replay(tmp_path / "run.trace", raise_on_divergence=True)

    assert (result.compared, result.boundary) == (result.turns, ())


def test_a_turns_second_message_is_used_if_the_first_was_lost(tmp_path: Path) -> None:
    small = scripted_actor([], {"second": replies_to_parent}).with_mailbox(BoundedMailbox(1, "drop_oldest"))
    with SeededSystem(3, recorder=TraceRecorder(tmp_path / "run.trace")) as system:
        script = {"start": lambda c: tell_all(c.spawn(small, "small"), "first", "second")}
        system.spawn(scripted_actor([], script), "big")
        system.run_until_idle()

    result = TraceReplayer(actors={"/user/big": scripted_actor([], script)}).replay(
        tmp_path / "run.trace", raise_on_divergence=True
    )

    assert result.compared == result.turns


def tell_all(ref: ActorRef, *words: str) -> None:
    for word in words:
        ref.tell(says(word))


def replies_to_parent(context: ActorContext) -> None:
    context.parent.tell(says("heard the second"))


def test_replayed_actors_are_not_in_pykkas_registry(tmp_path: Path) -> None:
    with SeededSystem(1, recorder=TraceRecorder(tmp_path / "run.trace")) as system:
        spawn_random_actors(system, 1)
        system.advance(300)
    living = pykka.ActorRegistry.get_all()

    session = TraceReplayer().session(tmp_path / "run.trace")
    session.step(20)

    assert session.actors() != ()
    assert pykka.ActorRegistry.get_all() == living
