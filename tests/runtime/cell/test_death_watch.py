"""A watcher gets `Terminated` exactly once, however the actor ended, and after all messages of the ended actor."""

from __future__ import annotations

from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.props import Props
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import Say, in_turn, says, scripted_actor


def test_a_watcher_is_notified_once_however_often_it_watches(system: SeededSystem) -> None:
    log: list[str] = []
    ref = system.spawn(scripted_actor([]), "a")
    watcher = system.spawn(scripted_actor(log, {"watch": in_turn(lambda c: c.watch(ref), lambda c: c.watch(ref))}), "w")
    watcher.tell(says("watch"))
    watcher.tell(says("watch"))
    system.run_until_idle()

    ref.stop()
    system.run_until_idle()

    assert log == ["w start", "w watch", "w watch", "w sees the end of /user/a"]


def test_watching_an_ended_actor_reports_its_end_at_once(system: SeededSystem) -> None:
    log: list[str] = []
    ref = system.spawn(scripted_actor([]), "a")
    ref.stop()

    system.spawn(scripted_actor(log, {"start": lambda context: context.watch(ref)}), "w")
    system.run_until_idle()

    assert log == ["w start", "w sees the end of /user/a"]


def test_watching_a_ref_that_never_existed_reports_its_end(system: SeededSystem) -> None:
    log: list[str] = []

    system.spawn(scripted_actor(log, {"start": lambda context: context.watch(Ref("/user/nobody", 3))}), "w")
    system.run_until_idle()

    assert log == ["w start", "w sees the end of /user/nobody"]


def test_unwatch_drops_a_queued_terminated(system: SeededSystem) -> None:
    log: list[str] = []
    ref = system.spawn(scripted_actor([]), "a")

    def unwatch(context: ActorContext) -> None:
        # The actor ends while this turn runs, so that `Terminated` is queued after it.
        system.kill(ref)
        while system.schedule.step():
            pass
        context.unwatch(ref)

    watcher = system.spawn(scripted_actor(log, {"watch": lambda c: c.watch(ref), "unwatch": unwatch}), "w")
    for word in ("watch", "unwatch", "later"):
        watcher.tell(says(word))
    system.run_until_idle()

    assert log == ["w start", "w watch", "w unwatch", "w later"]


def test_terminated_follows_the_messages_of_the_ended_actor(system: SeededSystem) -> None:
    log: list[str] = []
    watcher = system.spawn(scripted_actor(log), "w")
    script = {
        "go": in_turn(lambda _: watcher.tell(says("last words")), lambda c: c.stop()),
        "stop": lambda _: watcher.tell(says("bye")),
    }
    ref = system.spawn(scripted_actor([], script), "a")
    probe = TestProbe(system)
    script = {"start": lambda c: c.watch(ref, says("gone")), "gone": lambda _: probe.ref.tell(says("gone"))}
    system.spawn(scripted_actor([], script), "v")
    system.run_until_idle()

    ref.tell(says("go"))
    system.run_until_idle()

    assert log == ["w start", "w last words", "w bye"]
    assert probe.expect_message(Say) == says("gone")


def test_a_parent_may_watch_its_child(system: SeededSystem) -> None:
    log: list[str] = []
    child = scripted_actor([])
    script = {
        "start": lambda c: c.watch(c.spawn(child, "c")),
        "end": lambda c: c.stop(c.children[0]),
        "sees the end of /user/p/c": lambda c: log.append(f"{len(c.children)} left"),
    }

    system.spawn(scripted_actor(log, script), "p").tell(says("end"))
    system.run_until_idle()

    assert log == ["p start", "p end", "p sees the end of /user/p/c", "0 left"]


def test_an_unhandled_terminated_ends_the_watcher(system: SeededSystem) -> None:
    log: list[str] = []

    class Clinging(Actor):
        def __init__(self, to: Ref) -> None:
            self._to = to

        def pre_start(self) -> None:
            self.context.watch(self._to)

        def handle_message(self, message: Message) -> None:
            self.context.unhandled(message)

    beloved = system.spawn(scripted_actor([]), "beloved")
    clinging = system.spawn(Props(Clinging, beloved), "clinging")
    system.spawn(scripted_actor(log, {"start": lambda context: context.watch(clinging)}), "w")
    clinging.tell(says("whatever"))
    system.run_until_idle()
    alive_meanwhile = clinging.is_alive()
    beloved.stop(block=False)
    system.run_until_idle()

    assert alive_meanwhile
    assert log == ["w start", "w sees the end of /user/clinging"]
