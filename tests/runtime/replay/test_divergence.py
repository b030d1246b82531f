"""A replay reports a divergence at its turn, with its kind, effect, field, cause and line."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from flykka.messages.wire.ids import LeaderSessionId
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import AskTimeoutError
from flykka.runtime.props import Props
from flykka.runtime.replay.divergence import Divergence, DivergenceError
from flykka.runtime.replay.effect_comparator import DivergenceKind
from flykka.runtime.replay.replayer import ReplayResult, TraceReplayer
from flykka.runtime.supervision import STOPPING_STRATEGY
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.runtime.scripted_actors import Deed, fails, in_turn, raises, replies, says, scripted_actor, spawns

pytestmark = pytest.mark.usefixtures("no_log_of_failures")


@dataclass(frozen=True)
class Stage:
    path: Path

    def record(self, **script: Deed) -> None:
        with SeededSystem(3, recorder=TraceRecorder(self.path), default_ask_timeout=0.05) as system:
            system.spawn(scripted_actor([], {"question": replies}), "b")
            ref = system.spawn(scripted_actor([], script), "a")
            ref.tell(says("before"))
            system.advance(10)
            ref.tell(says("do"))
            system.advance(100)

    def replay(self, **script: Deed) -> ReplayResult:
        actors = {"/user/a": scripted_actor([], script), "/user/b": scripted_actor([], {"question": replies})}
        return TraceReplayer(actors=actors).replay(self.path)

    def divergence(self, **script: Deed) -> Divergence:
        divergence = self.replay(**script).divergence
        assert divergence is not None
        return divergence


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "run.trace")


def b(context: ActorContext) -> object:
    found = context.system.find("/user/b")
    assert found is not None
    return found


def tells(*words: str, to: str = "/user/b") -> Deed:
    def deed(context: ActorContext) -> None:
        for word in words:
            context.actor_selection(to).tell(says(word))

    return deed


def nothing(_context: ActorContext) -> None:
    pass


def ask_question(context: ActorContext) -> None:
    found = context.system.find("/user/b")
    assert found is not None
    context.parent.tell(found.ask(says("question")))


def starts(delay_ms: int) -> Deed:
    return lambda context: context.timers.start_once("k", delay_ms, says("tick"))


def works(context: ActorContext) -> None:
    context.pipe_to_self(lambda: "done", says, lambda _: says("failed"))


EFFECTS: list[tuple[str, Deed, Deed, DivergenceKind]] = [
    ("a send is missing", tells("x", "y"), tells("x"), DivergenceKind.MISSING_SEND),
    ("a send is more", tells("x"), tells("x", "y"), DivergenceKind.EXTRA_SEND),
    ("a send has another payload", tells("x"), tells("y"), DivergenceKind.PAYLOAD),
    ("a send goes to another", tells("x"), tells("x", to="/user/a"), DivergenceKind.TARGET),
    ("a timer is not started", starts(5), nothing, DivergenceKind.TIMER),
    ("a timer has another delay", starts(5), starts(6), DivergenceKind.TIMER),
    ("an actor is not spawned", spawns(scripted_actor([]), "c"), nothing, DivergenceKind.SPAWN),
    (
        "an actor has another name",
        spawns(scripted_actor([]), "c"),
        spawns(scripted_actor([]), "d"),
        DivergenceKind.SPAWN,
    ),
    ("the actor does not stop", lambda c: c.stop(), nothing, DivergenceKind.STOP),
    ("it does not fail", fails, nothing, DivergenceKind.FAILURE),
    ("it fails where it did not", nothing, fails, DivergenceKind.FAILURE),
    ("it fails with something else", fails, raises(ValueError), DivergenceKind.FAILURE),
    ("it does not watch", lambda c: c.watch(c.parent), nothing, DivergenceKind.EFFECT),
    ("it begins no work", works, nothing, DivergenceKind.EFFECT),
    ("it publishes", nothing, lambda c: c.publish(says("news")), DivergenceKind.EFFECT),
    ("it accepts a session", nothing, lambda c: c.accept_session(LeaderSessionId("x")), DivergenceKind.EFFECT),
    ("it becomes another", nothing, lambda c: c.become(print), DivergenceKind.EFFECT),
    ("it kills", nothing, lambda c: c.system.kill(c.ref), DivergenceKind.EFFECT),
    ("it stashes", nothing, lambda c: c.stash(), DivergenceKind.EFFECT),
    ("it sets a timeout", nothing, lambda c: c.set_receive_timeout("1s"), DivergenceKind.TIMER),
]


@pytest.mark.parametrize(("recorded", "now", "kind"), [row[1:] for row in EFFECTS], ids=[row[0] for row in EFFECTS])
def test_every_kind_of_effect_is_compared(stage: Stage, recorded: Deed, now: Deed, kind: DivergenceKind) -> None:
    stage.record(do=recorded)

    assert stage.replay(do=recorded).divergence is None
    divergence = stage.divergence(do=now)

    assert divergence.kind is kind
    assert divergence.turn.message == says("do")


def test_sending_an_ask_is_not_compared_as_an_effect(stage: Stage) -> None:
    stage.record(do=in_turn(b, tells("x")))

    assert stage.replay(do=tells("x")).ok


def test_a_reply_is_compared(stage: Stage) -> None:
    stage.record(do=ask_question)
    actors = {"/user/a": scripted_actor([], {"do": ask_question}), "/user/b": scripted_actor([], {"question": nothing})}

    divergence = TraceReplayer(actors=actors).replay(stage.path).divergence

    assert divergence is not None
    assert (divergence.kind, divergence.turn.recipient.path) == (DivergenceKind.REPLY, "/user/b")


def test_a_supervisor_decision_is_compared(tmp_path: Path) -> None:
    script = {"start": spawns(scripted_actor([], {"start": tells("x"), "fail": fails}), "c")}
    with SeededSystem(3, recorder=TraceRecorder(tmp_path / "run.trace")) as system:
        system.spawn(scripted_actor([], script), "a")
        system.run_until_idle()
        system.actor_selection("/user/a/c").tell(says("fail"))
        system.run_until_idle()

    now = (
        TraceReplayer(actors={"/user/a": scripted_actor([], script, STOPPING_STRATEGY)})
        .replay(tmp_path / "run.trace")
        .divergence
    )

    assert now is not None
    assert now.kind is DivergenceKind.SUPERVISION
    assert "expected  decides RESTART for /user/a/c" in now.text()
    assert "actual    decides STOP for /user/a/c" in now.text()


def test_all_missing_and_extra_effects_are_reported(stage: Stage) -> None:
    stage.record(do=in_turn(tells("x", "y"), starts(5)))

    divergence = stage.divergence(do=tells("x", "z", "w"))

    assert [type(each).__name__ for each in divergence.missing] == ["Send", "StartTimer"]
    assert [type(each).__name__ for each in divergence.extra] == ["Send", "Send"]


def test_the_report_contains_turn_line_effects_fields_causes_and_command(stage: Stage) -> None:
    stage.record(before=starts(3), tick=tells("x"))

    text = stage.divergence(before=starts(3), tick=tells("y")).text()

    first, *lines = text.splitlines()
    place = os.path.relpath(scripted_actor.__code__.co_filename)
    assert first.startswith("DIVERGENCE at turn ")
    assert f"/user/a <- Say(text=tick)    {place}:" in first
    assert lines[0] == "  expected  sends  /user/b <- Say(text=x)"
    assert lines[1] == "  actual    sends  /user/b <- Say(text=y)"
    assert lines[2] == "  field     text: recorded 'x', now 'y'"
    assert any(line.startswith("  caused by ") and line.endswith("Say(text=before)") for line in lines)
    assert lines[-1].startswith(f"  stop there: flykka debug {stage.path} --until ")


def test_the_json_report_has_the_same_content(stage: Stage) -> None:
    stage.record(do=tells("x"))

    report = stage.divergence(do=tells("y")).to_dict()

    assert (report["actor"], report["message"], report["kind"]) == ("/user/a", "Say(text=do)", "payload")
    assert report["fields"] == [{"path": "text", "recorded": "'x'", "now": "'y'"}]


def test_an_actor_that_reads_the_real_clock_diverges(stage: Stage) -> None:
    def reads_clock(context: ActorContext) -> None:
        context.parent.tell(says(str(time.time_ns())))

    stage.record(do=reads_clock)

    text = stage.divergence(do=reads_clock).text()

    assert f"/user/a uses time.time_ns() in its turn, at {__file__}:" in text
    assert "use context.now()" in text


def test_a_test_fails_with_the_divergence_report(stage: Stage) -> None:
    stage.record(do=tells("x"))

    with pytest.raises(DivergenceError, match=r"field +text: recorded 'x', now 'y'"):
        TraceReplayer(actors={"/user/a": scripted_actor([], {"do": tells("y")}), "/user/b": scripted_actor([])}).replay(
            stage.path, raise_on_divergence=True
        )


def test_an_ask_that_timed_out_times_out_again_in_replay(stage: Stage) -> None:
    def asks_in_vain(context: ActorContext) -> None:
        found = context.system.find("/user/b")
        assert found is not None
        try:
            found.ask(says("no question"), timeout=0.005)
        except AskTimeoutError as late:
            context.parent.tell(says(str(late)))

    stage.record(do=asks_in_vain)

    assert stage.replay(do=asks_in_vain).divergence is None


def test_a_turn_may_continue_after_a_kill_in_replay(stage: Stage) -> None:
    dies = in_turn(tells("before"), lambda c: c.system.kill(c.ref), tells("behind"))
    stage.record(do=dies)

    assert stage.replay(do=dies).divergence is None
    assert stage.divergence(do=in_turn(tells("other"), lambda c: c.system.kill(c.ref))).kind is DivergenceKind.PAYLOAD


def test_the_recorded_failure_of_a_turn_is_reported_with_unexpected_effects(stage: Stage) -> None:
    stage.record(do=fails)

    text = stage.divergence(do=tells("x")).text()

    assert "expected  nothing" in text
    assert "failure: recorded RuntimeError: as scripted, missing now" in text


def test_the_last_turn_before_a_kill_is_compared_with_its_record(stage: Stage) -> None:
    with SeededSystem(3, recorder=TraceRecorder(stage.path)) as system:
        system.spawn(scripted_actor([]), "b")
        ref = system.spawn(scripted_actor([], {"do": tells("x")}), "a")
        ref.tell(says("do"))
        system.run_until_idle()
        system.kill(ref)

    assert stage.divergence(do=tells("x", "y")).kind is DivergenceKind.EXTRA_SEND


def test_failures_in_a_replay_are_not_logged_again(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.record(do=fails)
    caplog.clear()

    with caplog.at_level(logging.DEBUG, logger="flykka.runtime"):
        assert stage.replay(do=fails).ok

    assert [record.message for record in caplog.records if "failed" in record.message] == []


def test_props_of_an_importable_class_need_no_argument_for_replay(tmp_path: Path) -> None:
    with SeededSystem(3, recorder=TraceRecorder(tmp_path / "run.trace")) as system:
        props: Props = scripted_actor([], {})
        system.spawn(props, "a").tell(says("x"))
        system.run_until_idle()

    result = TraceReplayer().replay(tmp_path / "run.trace")

    assert (result.boundary, result.compared, result.ok) == ((), result.turns, True)
