"""Fencing: messages of a former leader do not reach a handler."""

from __future__ import annotations

from flykka.messages.kernel.leader_session import LeaderSessionMessage
from flykka.messages.wire.ids import LeaderSessionId
from flykka.runtime.events import DeadLetter
from flykka.runtime.leader_session import Gateway
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import fails, says, scripted_actor

NOW, BEFORE = LeaderSessionId("now"), LeaderSessionId("before")


def test_only_messages_of_accepted_sessions_and_plain_messages_are_handled(system: SeededSystem) -> None:
    log: list[str] = []
    letters: list[DeadLetter] = []
    system.event_stream.subscribe(letters.append, DeadLetter)
    ref = system.spawn(scripted_actor(log, {"start": lambda context: context.accept_session(NOW)}), "a")

    Gateway(ref, BEFORE).tell(says("stale"))
    Gateway(ref, NOW).tell(says("fresh"))
    ref.tell(says("plain"))
    system.run_until_idle()

    assert log == ["a start", "a fresh", "a plain"]
    assert [letter.reason for letter in letters] == ["stale leader session before (accepted: now)"]
    assert letters[0].message == LeaderSessionMessage(leader_session_id=BEFORE, message=says("stale"))


def test_a_revoked_session_is_stale(system: SeededSystem) -> None:
    log: list[str] = []
    script = {
        "start": lambda context: context.accept_session(NOW),
        "change": lambda context: context.revoke_session(NOW),
    }
    ref = system.spawn(scripted_actor(log, script), "a")

    for word in ("change", "more"):
        Gateway(ref, NOW).tell(says(word))
    system.run_until_idle()

    assert log == ["a start", "a change"]


def test_a_restart_clears_the_accepted_sessions(system: SeededSystem) -> None:
    log: list[str] = []
    script = {"start": lambda context: context.accept_session(NOW), "fail": fails}
    ref = system.spawn(scripted_actor(log, script), "a")

    for word in ("fail", "more"):
        Gateway(ref, NOW).tell(says(word))
    system.run_until_idle()

    assert log == ["a start", "a fail", "a stop", "a restart"]


def test_a_stale_ask_fails_at_once(system: SeededSystem) -> None:
    ref = system.spawn(scripted_actor([]), "a")

    reply = ref.ask(LeaderSessionMessage(leader_session_id=BEFORE, message=says("x")), block=False)
    system.run_until_idle()

    assert reply.done()
