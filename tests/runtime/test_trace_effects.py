"""The record of a turn contains all its effects, and its inputs that are not messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from flykka.messages.wire.ids import LeaderSessionId
from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import AskFailedError, AskTimeoutError
from flykka.runtime.props import Props
from flykka.runtime.replay.replayer import TraceReplayer
from flykka.runtime.supervision import Directive, OneForOne
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.effects import (
    CODES,
    EFFECTS,
    AcceptSession,
    Awaited,
    Become,
    CancelTimer,
    Effect,
    Kill,
    Lookup,
    Own,
    Publish,
    Reject,
    RevokeSession,
    Send,
    SetReceiveTimeout,
    Spawn,
    StartTimer,
    Stop,
    Subscribe,
    Supervise,
    Terminate,
    Unbecome,
    Unsubscribe,
)
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.runtime.trace.records import Spawned
from tests.runtime.scripted_actors import Deed, Say, fails, in_turn, replies, says, scripted_actor

PLAYER = "tests.runtime.scripted_actors:ScriptedActor"


class Closes:
    def close(self) -> None: ...


def effects_of(path: Path, deed: Deed) -> tuple[Effect, ...]:
    """Return the recorded effects of a turn of /user/a that performs this action; another actor is at /user/b."""
    with SeededSystem(5, recorder=TraceRecorder(path)) as system:
        system.spawn(scripted_actor([], {"question": replies, "fail": fails}), "b")
        system.spawn(scripted_actor([], {"go": deed}), "a").tell(says("go"))
        system.run_until_idle()
    (turn,) = [
        turn for turn in TraceReader.open(path) if turn.message == says("go") and turn.recipient.path == "/user/a"
    ]
    return turn.effects


def b(context: ActorContext) -> object:
    return context.system.dead_ref("/user/b", 1)


def wears(_message: Message) -> None: ...


@pytest.mark.parametrize(
    ("deed", "expected"),
    [
        (
            in_turn(lambda c: c.become(wears, discard_old=False), lambda c: c.unbecome()),
            (Become(behaviour="wears", discard_old=False), Unbecome()),
        ),
        (lambda c: c.own(Closes()), (Own(resource=f"{__name__}:Closes"),)),
        (lambda c: c.publish(says("news")), (Publish(message=says("news")),)),
        (lambda c: c.reject("not today"), (Reject(reason="not today"),)),
        (
            in_turn(
                lambda c: c.accept_session(LeaderSessionId("new")), lambda c: c.revoke_session(LeaderSessionId("old"))
            ),
            (
                AcceptSession(leader_session_id=LeaderSessionId("new")),
                RevokeSession(leader_session_id=LeaderSessionId("old")),
            ),
        ),
        (
            in_turn(
                lambda c: c.system.event_stream.subscribe(c.ref, Say),
                lambda c: c.system.event_stream.unsubscribe(wears),
            ),
            (Subscribe(subscriber="/user/a#1", types=(Say.wire_tag,)), Unsubscribe(subscriber="wears", types=())),
        ),
        (
            in_turn(
                lambda c: c.timers.start_fixed_delay("d", 10, says("tick")),
                lambda c: c.timers.start_fixed_rate("r", 10, says("tick"), 5),
                lambda c: c.timers.cancel("d"),
                lambda c: c.timers.cancel("never begun"),
            ),
            (
                StartTimer(key="d", first_ms=10, message=says("tick"), delay_ms=10),
                StartTimer(key="r", first_ms=5, message=says("tick"), delay_ms=10, fixed_rate=True),
                CancelTimer(key="d"),
            ),
        ),
        (lambda c: c.set_receive_timeout("1s"), (SetReceiveTimeout(timeout_ms=1000),)),
        (lambda c: c.system.terminate(), (Terminate(),)),
    ],
    ids=lambda case: type(case[0]).__name__ if isinstance(case, tuple) else "",
)
def test_every_effect_of_a_turn_is_recorded(tmp_path: Path, deed: Deed, expected: tuple[Effect, ...]) -> None:
    assert effects_of(tmp_path / "run.trace", deed) == expected


def test_every_effect_kind_has_a_unique_code() -> None:
    assert list(CODES.values()) == list(range(len(EFFECTS)))
    assert len(set(EFFECTS)) == len(EFFECTS)


def test_a_spawned_actor_is_reported_with_its_class(tmp_path: Path) -> None:
    def spawns(context: ActorContext) -> None:
        context.spawn(scripted_actor([]), "child")
        context.spawn_top_level(scripted_actor([]), "guest")
        context.system.spawn(Props(lambda: OtherScriptedActor()), "made")

    spawned = effects_of(tmp_path / "run.trace", spawns)

    made = [(effect.ref.path, effect.actor) for effect in spawned if isinstance(effect, Spawn)]
    assert made == [
        ("/user/a/child", PLAYER),
        ("/user/guest", PLAYER),
        (
            "/user/made",
            f"{__name__}:{test_a_spawned_actor_is_reported_with_its_class.__name__}.<locals>.spawns.<locals>.<lambda>",
        ),
    ]


class OtherScriptedActor(Actor):
    def handle_message(self, message: Message) -> None: ...


def test_an_actor_spawned_from_outside_has_a_record_before_its_turns(tmp_path: Path) -> None:
    with SeededSystem(5, recorder=TraceRecorder(tmp_path / "run.trace")) as system:
        system.advance(7)
        ref = system.spawn(Props(OtherScriptedActor), "a")

    spawned, *rest = [
        record for record in TraceReader.open(tmp_path / "run.trace").records() if isinstance(record, Spawned)
    ]
    assert not rest
    assert (spawned.ref, spawned.parent.path, spawned.actor) == (ref, "/user", f"{__name__}:OtherScriptedActor")
    assert spawned.now_ms == 7
    first = next(turn for turn in TraceReader.open(tmp_path / "run.trace").turns if turn.recipient == ref)
    assert spawned.sequence < first.sequence


def test_a_kill_within_a_turn_is_its_effect(tmp_path: Path) -> None:
    (kill,) = effects_of(tmp_path / "run.trace", lambda c: c.system.kill(c.system.dead_ref("/user/b", 1)))

    assert isinstance(kill, Kill)
    assert kill.ref.path == "/user/b"


def test_a_turns_observations_of_other_actors_are_recorded(tmp_path: Path) -> None:
    def looks(context: ActorContext) -> None:
        found = context.system.find("/user/b")
        assert found is not None
        found.is_alive()
        context.system.find("/user/nobody")
        context.actor_selection("../*").tell(says("hello"))

    effects = effects_of(tmp_path / "run.trace", looks)

    there = [effect for effect in effects if isinstance(effect, Lookup)]
    assert [(each.path, [ref.path for ref in each.refs]) for each in there] == [
        ("/user/b", ["/user/b"]),
        ("/user/b", ["/user/b"]),
        ("/user/nobody", []),
        ("/user/*", ["/user/b", "/user/a"]),
    ]
    assert [effect.target.path for effect in effects if isinstance(effect, Send)] == ["/user/b", "/user/a"]


def test_a_stop_by_the_ref_is_recorded_as_an_effect(tmp_path: Path) -> None:
    def stops(context: ActorContext) -> None:
        found = context.system.find("/user/b")
        assert found is not None
        found.stop(block=False)

    assert [type(effect) for effect in effects_of(tmp_path / "run.trace", stops)] == [Lookup, Lookup, Stop]


def ask_word(word: str, errors: list[BaseException]) -> Deed:
    def deed(context: ActorContext) -> None:
        found = context.system.find("/user/b")
        assert found is not None
        try:
            found.ask(says(word), timeout=1)
        except (AskFailedError, AskTimeoutError) as error:
            errors.append(error)

    return deed


def test_an_ask_within_a_turn_is_recorded_with_question_promise_and_reply(tmp_path: Path) -> None:
    _, question, answer = effects_of(tmp_path / "run.trace", ask_word("question", []))

    assert isinstance(question, Send)
    assert question.message == says("question")
    assert question.promise is not None
    assert answer == Awaited(now_ms=0, message=says("reply"), failure=None, promise=question.promise)


def test_awaited_replies_are_recorded_in_the_order_of_the_awaits(tmp_path: Path) -> None:
    def asks_two(context: ActorContext) -> None:
        found = context.system.find("/user/b")
        assert found is not None
        first, second = (found.ask(says("question"), block=False) for _ in range(2))
        second.get(timeout=1)
        first.get(timeout=1)

    _, first, second, *awaited = effects_of(tmp_path / "run.trace", asks_two)

    assert isinstance(first, Send)
    assert isinstance(second, Send)
    promises = [each.promise for each in awaited if isinstance(each, Awaited)]
    assert promises == [second.promise, first.promise]
    replayer = TraceReplayer(modules=["tests.runtime.scripted_actors"])
    assert replayer.replay(tmp_path / "run.trace", raise_on_divergence=True).compared > 0


@pytest.mark.parametrize(("word", "failure"), [("fail", "AskFailedError"), ("nothing", "AskTimeoutError")])
def test_a_failed_ask_is_recorded_with_its_failure(tmp_path: Path, word: str, failure: str) -> None:
    errors: list[BaseException] = []

    awaited = effects_of(tmp_path / "run.trace", ask_word(word, errors))[-1]

    assert isinstance(awaited, Awaited)
    assert awaited.failure is not None
    assert (awaited.failure.type_name, awaited.failure.message) == (failure, str(errors[0]))


@pytest.mark.parametrize(
    ("directive", "expected"),
    [
        (Directive.RESUME, ["RESUME"]),
        (Directive.RESTART, ["RESTART"]),
        (Directive.STOP, ["STOP"]),
        (Directive.ESCALATE, ["ESCALATE"]),
    ],
)
def test_a_parents_decision_about_a_failure_is_recorded(
    tmp_path: Path, directive: Directive, expected: list[str]
) -> None:
    path = tmp_path / "run.trace"
    strategy = OneForOne(decider=lambda _: directive)
    with SeededSystem(5, recorder=TraceRecorder(path)) as system:
        child = scripted_actor([], {"fail": fails})
        system.spawn(scripted_actor([], {"start": lambda c: c.spawn(child, "c")}, strategy), "a")
        system.run_until_idle()
        system.actor_selection("/user/a/c").tell(says("fail"))
        system.run_until_idle()

    decisions = [
        effect
        for turn in TraceReader.open(path)
        for effect in turn.effects
        if isinstance(effect, Supervise) and turn.recipient.path == "/user/a"
    ]
    assert [decision.directive for decision in decisions] == expected
    assert {decision.child.path for decision in decisions} == {"/user/a/c"}


class Waits(Actor):
    """Awaits the scripted awaitable for a word, and sends itself a message afterwards."""

    def __init__(self, awaits: Callable[[ActorContext], object]) -> None:
        self._awaits = awaits

    async def handle_message(self, message: Message) -> None:
        if message == says("go"):
            await self._awaits(self.context)  # type: ignore[misc]
            self.context.ref.tell(says("went on"))


async def _asks_and_sleeps(context: ActorContext) -> None:
    found = context.system.find("/user/b")
    assert found is not None
    await found.ask(says("question"), block=False)
    await context.sleep(30)
    with pytest.raises(AskFailedError):
        await found.ask(says("fail"), block=False)


async def _asks_two(context: ActorContext) -> None:
    found = context.system.find("/user/b")
    assert found is not None

    async def later(ms: int, word: str) -> None:
        await context.sleep(ms)
        context.ref.tell(says(word))

    await asyncio.gather(later(20, "late"), later(10, "soon"))


def coroutine_turn(path: Path, awaits: Callable[[ActorContext], object]) -> tuple[Effect, ...]:
    with SeededSystem(5, recorder=TraceRecorder(path)) as system:
        system.spawn(scripted_actor([], {"question": replies, "fail": fails}), "b")
        system.spawn(Props(Waits, awaits), "a").tell(says("go"))
        system.advance(100)
    (turn,) = [turn for turn in TraceReader.open(path) if turn.message == says("go")]
    return turn.effects


def test_a_coroutine_records_each_awaited_outcome_at_the_point_of_resumption(tmp_path: Path) -> None:
    effects = coroutine_turn(tmp_path / "run.trace", _asks_and_sleeps)

    assert [type(effect) for effect in effects] == [Lookup, Send, Awaited, Awaited, Send, Awaited, Send]
    answer, slept, failed = (effect for effect in effects if isinstance(effect, Awaited))
    assert (answer.now_ms, answer.message, answer.failure) == (0, says("reply"), None)
    assert slept == Awaited(now_ms=30, message=None, failure=None)
    assert failed.failure is not None
    assert failed.failure.type_name == "AskFailedError"


def test_outcomes_are_recorded_in_the_order_of_resumption(tmp_path: Path) -> None:
    effects = coroutine_turn(tmp_path / "run.trace", _asks_two)

    assert [effect.now_ms for effect in effects if isinstance(effect, Awaited)] == [10, 20]
    words = [effect.message for effect in effects if isinstance(effect, Send)]
    assert words == [says("soon"), says("late"), says("went on")]


def test_a_cancelled_coroutine_records_the_cancellation(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with SeededSystem(5, recorder=TraceRecorder(path)) as system:
        ref = system.spawn(Props(Waits, lambda c: c.sleep("1h")), "a")
        ref.tell(says("go"))
        system.run_until_idle()
        ref.stop(block=False)
        system.run_until_idle()

    (turn,) = [turn for turn in TraceReader.open(path) if turn.message == says("go")]
    (awaited,) = turn.effects
    assert isinstance(awaited, Awaited)
    assert awaited.failure is not None
    assert awaited.failure.type_name == "CancelledError"


def test_two_systems_in_one_process_record_separately(tmp_path: Path) -> None:
    with (
        ActorSystem("one", recorder=TraceRecorder(tmp_path / "one")) as one,
        ActorSystem("two", recorder=TraceRecorder(tmp_path / "two")) as two,
    ):
        other = two.spawn(scripted_actor([], {"sync": replies}), "b")
        across = one.spawn(scripted_actor([], {"go": lambda _: other.tell(says("across")), "sync": replies}), "a")
        across.tell(says("go"))
        across.ask(says("sync"), timeout=5)
        other.ask(says("sync"), timeout=5)

    first, second = (TraceReader.open(tmp_path / name) for name in ("one", "two"))
    assert (first.header.system, second.header.system) == ("one", "two")
    assert {turn.recipient.path for turn in first} >= {"/user/a"}
    assert not {"/user/b"} & {turn.recipient.path for turn in first}
    assert not {"/user/a"} & {turn.recipient.path for turn in second}
    assert says("across") in [turn.message for turn in second]
