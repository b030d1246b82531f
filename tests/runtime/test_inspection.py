"""A system is described without sending messages to its actors."""

from __future__ import annotations

import threading

from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.inspection.snapshot import ActorSnapshot
from flykka.runtime.props import Props
from flykka.runtime.supervision import OneForOne
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.time.backoff import Backoff
from tests.runtime.scripted_actors import fails, replies, says, scripted_actor


def of(system: ActorSystem, path: str) -> ActorSnapshot:
    found = system.inspect().find(path)
    assert found is not None
    return found


def test_a_snapshot_lists_the_actors_as_a_tree_in_spawning_order(system: SeededSystem) -> None:
    family = scripted_actor([], {"start": lambda context: [context.spawn(scripted_actor([]), name) for name in "zay"]})
    system.spawn(scripted_actor([]), "second-to-none")
    system.spawn(family, "p")
    system.run_until_idle()

    snapshot = system.inspect()

    assert [actor.name for actor in snapshot.actors] == ["second-to-none", "p"]
    assert [actor.ref.path for actor in snapshot] == [
        "/user/second-to-none",
        "/user/p",
        "/user/p/z",
        "/user/p/a",
        "/user/p/y",
    ]
    assert snapshot.find("/user/p/q") is None


def test_turns_are_counted_with_the_rate_since_the_last_snapshot(system: SeededSystem) -> None:
    ref = system.spawn(scripted_actor([]), "a")
    system.run_until_idle()
    system.advance(1_000)
    assert (of(system, "/user/a").turns, of(system, "/user/a").turns_per_second) == (1, 0.0)

    for _ in range(10):
        ref.tell(says("x"))
    system.advance(2_000)

    actor = of(system, "/user/a")
    assert (actor.turns, actor.turns_per_second) == (11, 5.0)
    system.advance(1_000)
    assert of(system, "/user/a").turns_per_second == 0.0


def test_the_first_snapshot_has_the_rate_since_the_start(system: SeededSystem) -> None:
    system.spawn(scripted_actor([]), "a").tell(says("x"))
    system.advance(4_000)

    assert of(system, "/user/a").turns_per_second == 0.5


def test_turns_are_counted_on_threads(threaded: ActorSystem) -> None:
    ref = threaded.spawn(scripted_actor([], {"q": replies}), "a")
    for _ in range(500):
        ref.tell(says("x"))
    ref.ask(says("q"))
    ref.stop()
    again = threaded.spawn(scripted_actor([], {"q": replies}), "b")
    again.ask(says("q"))

    threaded.terminate().wait(timeout=5)

    cell = ref.actor_inbox.owner
    # 1 creation, 500 words, 1 question, 1 stop.
    assert getattr(cell, "turns") == 503  # noqa: B009 - the owner of a mailbox need not be a cell.


def test_a_snapshot_contains_restarts_and_the_last_failure(system: SeededSystem) -> None:
    ref = system.spawn(scripted_actor([], {"fail": fails}), "a")
    system.advance(500)
    assert (of(system, "/user/a").restarts, of(system, "/user/a").last_failure) == (0, None)

    for _ in range(2):
        ref.tell(says("fail"))
    system.run_until_idle()

    actor = of(system, "/user/a")
    assert (actor.restarts, actor.last_failure_ms, actor.state) == (2, 500, "running")
    assert actor.last_failure is not None
    assert actor.last_failure.message == "as scripted"


def test_a_snapshot_contains_queued_messages_of_an_actor_in_backoff(system: SeededSystem) -> None:
    child = scripted_actor([], {"fail": fails})
    strategy = OneForOne(backoff=Backoff(min_backoff="1s", random_factor=0))
    system.spawn(scripted_actor([], {"start": lambda context: context.spawn(child, "c")}, strategy), "p")
    system.run_until_idle()

    for word in ("fail", "one", "two"):
        system.actor_selection("/user/p/c").tell(says(word))
    system.run_until_idle()

    actor = of(system, "/user/p/c")
    assert (actor.state, actor.mailbox_size, actor.restarts) == ("restarting", 2, 0)


def test_stashed_messages_are_counted(system: SeededSystem) -> None:
    ref = system.spawn(scripted_actor([], {"later": lambda context: context.stash()}), "a")
    ref.tell(says("later"))
    system.run_until_idle()

    assert of(system, "/user/a").stashed == 1


def test_a_stuck_actor_is_inspected_without_waiting(threaded: ActorSystem) -> None:
    begun, free = threading.Event(), threading.Event()

    class Stuck(Actor):
        def handle_message(self, message: Message) -> None:
            begun.set()
            free.wait(5)

    ref = threaded.spawn(Props(Stuck).with_dispatcher("pinned"), "a")
    for _ in range(3):
        ref.tell(says("x"))
    assert begun.wait(5)

    actor = of(threaded, "/user/a")

    free.set()
    assert (actor.actor, actor.state, actor.handles, actor.mailbox_size) == ("Stuck", "running", "Say", 2)
    assert actor.dispatcher == "pinned"


def test_an_ended_actor_is_not_listed(system: SeededSystem) -> None:
    ref = system.spawn(scripted_actor([]), "a")
    ref.stop()

    assert system.inspect().actors == ()


def test_inspecting_from_many_threads_works_while_actors_start_and_end(threaded: ActorSystem) -> None:
    family = scripted_actor([], {"start": lambda context: [context.spawn(scripted_actor([]), name) for name in "abc"]})
    over = threading.Event()
    seen: list[int] = []

    def look() -> None:
        while not over.is_set():
            seen.append(sum(1 for _ in threaded.inspect()))
            str(threaded.tree())

    watcher = threading.Thread(target=look)
    watcher.start()
    for _ in range(30):
        threaded.spawn(family, "p").stop()
    over.set()
    watcher.join(5)

    assert seen
    assert max(seen) <= 4


def picture(system: SeededSystem) -> str:
    return str(system.tree())


def test_a_snapshot_is_printed_as_plain_text(system: SeededSystem) -> None:
    family = scripted_actor([], {"start": lambda context: context.spawn(scripted_actor([], {"fail": fails}), "child")})
    system.spawn(family, "parent")
    system.spawn(scripted_actor([]).with_dispatcher("pinned"), "pin")
    system.run_until_idle()
    system.actor_selection("/user/parent/child").tell(says("fail"))
    system.advance(2_000)

    assert picture(system).splitlines() == [
        "seeded  3 actors · 3.0 turns/s",
        "├── parent  ScriptedActor · running · 2 turns (1.0/s)",
        "│   └── child  ScriptedActor · running · 3 turns (1.5/s) · 1 restart · RuntimeError 2.0 s ago: as scripted",
        "└── pin  ScriptedActor · running · 1 turn (0.5/s) · pinned",
    ]
    assert repr(system.tree()).startswith("seeded  3 actors")


def test_a_long_list_of_children_is_truncated(system: SeededSystem) -> None:
    for number in range(1_010):
        system.spawn(scripted_actor([]), f"a{number}")

    lines = str(system.tree(max_children=2)).splitlines()

    assert len(lines) == 4
    assert lines[1].startswith("├── a0  Props(ScriptedActor) · starting · 0 turns")
    assert lines[3] == "└── … 1,008 more"


def test_a_snapshot_is_rendered_as_escaped_html(system: SeededSystem) -> None:
    def markup(_context: object) -> None:
        raise ValueError("<b>[bold]no[/bold]</b>\nsecond line")

    system.spawn(scripted_actor([], {"fail": markup}), "a").tell(says("fail"))
    system.run_until_idle()

    html = system.tree()._repr_html_()

    assert html.startswith("<pre")
    assert "&lt;b&gt;[bold]no[/bold]&lt;/b&gt;" in html
    assert "second line" not in html
