"""The outcome of some turns depends on other threads. A replay uses the recorded outcome."""

from __future__ import annotations

import threading
from pathlib import Path

from flykka.runtime.context import ActorContext
from flykka.runtime.errors import InvalidActorNameError, SpawnRefusedError
from flykka.runtime.path import USER
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.replay.replayer import TraceReplayer
from flykka.runtime.supervision import AllForOne, Directive
from flykka.runtime.system import ActorSystem
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.runtime.trace.text import effects_text
from tests.runtime.scripted_actors import fails, replies, says, scripted_actor, spawns
from tests.runtime.scripted_actors import in_turn as in_order

WAIT_SECONDS = 5


class Moment:
    """Makes a turn wait for other threads, and other threads wait for the turn."""

    def __init__(self) -> None:
        self._reached, self._passed = threading.Event(), threading.Event()

    def hold(self) -> None:
        self._reached.set()
        assert self._passed.wait(WAIT_SECONDS)

    def wait(self) -> None:
        assert self._reached.wait(WAIT_SECONDS)

    def let_go(self) -> None:
        self._passed.set()


def test_a_spawn_refused_during_termination_is_refused_in_replay(tmp_path: Path) -> None:
    moment = Moment()

    def plays(context: ActorContext) -> None:
        moment.hold()
        tries(context, "/user/beside")

    big = scripted_actor([], {"play": plays})
    with ActorSystem("threads", recorder=TraceRecorder(tmp_path / "run.trace")) as system:
        witness = system.spawn(scripted_actor([]), "witness")
        system.spawn(big.with_dispatcher("pinned"), "big").tell(says("play"))
        moment.wait()
        system.terminate()
        assert has_ended(witness)
        moment.let_go()

    assert "is refused /user/beside: /user#1 is ending" in effects(tmp_path / "run.trace", "play")
    assert_replays(tmp_path / "run.trace", big)


def test_a_name_freed_during_a_turn_can_be_reused(tmp_path: Path) -> None:
    moment = Moment()

    def plays(context: ActorContext) -> None:
        moment.hold()
        tries(context, "/user/big/small")

    big = scripted_actor([], {"start": spawns(scripted_actor([]), "small"), "play": plays})
    with ActorSystem("threads", recorder=TraceRecorder(tmp_path / "run.trace")) as system:
        system.spawn(big.with_dispatcher("pinned"), "big").tell(says("play"))
        moment.wait()
        actor_at(system, "/user/big/small").stop()
        moment.let_go()

    assert effects(tmp_path / "run.trace", "play") == "spawns /user/big/small"
    assert_replays(tmp_path / "run.trace", big)


def test_a_name_is_occupied_while_its_former_actor_is_stopping(tmp_path: Path) -> None:
    moment = Moment()
    small = scripted_actor([], {"stop": lambda _: moment.hold()}).with_dispatcher("pinned")

    def plays(context: ActorContext) -> None:
        tries(context, "/user/big/small")
        moment.let_go()

    big = scripted_actor([], {"start": spawns(small, "small"), "ready": replies, "play": plays})
    with ActorSystem("threads", recorder=TraceRecorder(tmp_path / "run.trace")) as system:
        big_ref = system.spawn(big.with_dispatcher("pinned"), "big")
        big_ref.ask(says("ready"))
        first = actor_at(system, "/user/big/small")
        first.stop(block=False)
        moment.wait()
        big_ref.tell(says("play"))
        assert has_ended(first)

    assert effects(tmp_path / "run.trace", "play").startswith("is refused /user/big/small: ")
    assert_replays(tmp_path / "run.trace", big)


def test_a_name_is_free_after_the_turn_has_killed_its_owner(tmp_path: Path) -> None:
    def plays(context: ActorContext) -> None:
        context.system.kill(context.children[0])
        tries(context, "/user/big/small")

    small = scripted_actor([], {"start": spawns(scripted_actor([]), "tiny")})
    big = scripted_actor([], {"start": spawns(small, "small"), "play": plays, "ready": replies})
    with ActorSystem("threads", recorder=TraceRecorder(tmp_path / "run.trace")) as system:
        ref = system.spawn(big, "big")
        ref.tell(says("play"))
        # Termination does not wait for queued messages.
        ref.ask(says("ready"))

    assert effects(tmp_path / "run.trace", "play") == "kills /user/big/small; spawns /user/big/small"
    assert_replays(tmp_path / "run.trace", big)


def test_a_child_spawned_by_a_killed_actor_is_dead_at_once(tmp_path: Path) -> None:
    moment = Moment()
    spawned: list[ActorRef] = []
    done = threading.Event()

    def plays(context: ActorContext) -> None:
        moment.hold()
        spawned.append(context.system.spawn(scripted_actor([]), "beside"))
        done.set()

    big = scripted_actor([], {"play": plays})
    with ActorSystem("threads", recorder=TraceRecorder(tmp_path / "run.trace")) as system:
        ref = system.spawn(big.with_dispatcher("pinned"), "big")
        ref.tell(says("play"))
        moment.wait()
        system.kill(ref)
        moment.let_go()
        # Termination does not wait for the turn of a killed actor.
        assert done.wait(WAIT_SECONDS)

    assert [each.is_alive() for each in spawned] == [False]
    assert "/user/beside" not in {turn.recipient.path for turn in TraceReader.open(tmp_path / "run.trace").turns}


def test_a_parent_decides_again_about_a_child_in_backoff(tmp_path: Path) -> None:
    in_turn, on_the_way_out, busy = Moment(), Moment(), Moment()
    decided_about_a = threading.Event()

    def plays(_context: ActorContext) -> None:
        in_turn.hold()
        raise ValueError("as scripted")

    def decides(error: BaseException) -> Directive:
        if isinstance(error, ValueError):
            on_the_way_out.let_go()
        else:
            decided_about_a.set()
        return Directive.RESTART

    def big() -> Props:
        a = scripted_actor([], {"fail": fails}).with_dispatcher("pinned")
        b = scripted_actor([], {"play": plays, "stop": lambda _: on_the_way_out.hold()}).with_dispatcher("pinned")
        script = {"start": in_order(spawns(a, "a"), spawns(b, "b")), "ready": replies, "wait": lambda _: busy.hold()}
        return scripted_actor([], script, AllForOne(decider=decides))

    with ActorSystem("threads", recorder=TraceRecorder(tmp_path / "run.trace")) as system:
        ref = system.spawn(big().with_dispatcher("pinned"), "big")
        ref.ask(says("ready"))
        actor_at(system, "/user/big/b").tell(says("play"))
        in_turn.wait()
        actor_at(system, "/user/big/a").tell(says("fail"))
        assert decided_about_a.wait(WAIT_SECONDS)
        ref.tell(says("wait"))
        busy.wait()
        in_turn.let_go()
        on_the_way_out.wait()
        busy.let_go()

    assert_replays(tmp_path / "run.trace", big())


def tries(context: ActorContext, path: str) -> None:
    parent, _, name = path.rpartition("/")
    spawn = context.spawn_top_level if parent == USER else context.spawn
    try:
        spawn(scripted_actor([]), name)
    except (InvalidActorNameError, SpawnRefusedError) as refusal:
        context.parent.tell(says(str(refusal)))


def actor_at(system: ActorSystem, path: str) -> ActorRef:
    ref = system.find(path)
    assert ref is not None
    return ref


def has_ended(ref: ActorRef) -> bool:
    return ref.actor_stopped.wait(WAIT_SECONDS)


def effects(trace: Path, word: str) -> str:
    return next(effects_text(turn) for turn in TraceReader.open(trace).turns if turn.message == says(word))


def assert_replays(trace: Path, big: Props) -> None:
    result = TraceReplayer(actors={"/user/big": big, "/user/witness": scripted_actor([])}).replay(
        trace, raise_on_divergence=True
    )
    assert (result.compared, result.boundary) == (result.turns, ())
