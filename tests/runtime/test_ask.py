"""Every ask is completed: answered, refused or timed out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pykka
import pytest

from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import (
    ActorDeadError,
    AskCycleError,
    AskFailedError,
    AskTimeoutError,
    FutureCancelledError,
)
from flykka.runtime.events import ActorFailed, DeadLetter
from flykka.runtime.futures.future import Future
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.replay.replayer import TraceReplayer
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.runtime.scripted_actors import Deed, fails, in_turn, replies, says, scripted_actor


@message("test.question")
class Question(Message):
    """test -> Answerer: send the reply to `reply_to`."""

    reply_to: Ref


class Answerer(Actor):
    def handle_message(self, message: Message) -> None:
        assert isinstance(message, Question)
        message.reply_to.tell(says("here"))


def test_the_reply_is_sent_to_the_sender(system: SeededSystem) -> None:
    ref = system.spawn(scripted_actor([], {"question": replies}), "a")

    assert ref.ask(says("question"), timeout=1) == says("reply")


def test_the_reply_is_sent_to_the_ref_in_the_message(system: SeededSystem) -> None:
    ref = system.spawn(Props(Answerer), "a")

    assert ref.ask(lambda me: Question(reply_to=me), timeout=1) == says("here")


def test_no_reply_in_time_is_a_timeout(system: SeededSystem) -> None:
    ref = system.spawn(scripted_actor([]), "a")

    with pytest.raises(AskTimeoutError, match="did not reply within 2 seconds") as late:
        ref.ask(says("question"), timeout=2)

    assert isinstance(late.value, pykka.Timeout)
    assert system.manual_clock.now_ms() == 2000


def test_reading_a_future_fails_at_the_deadline_of_its_ask(system: SeededSystem) -> None:
    reply = system.spawn(scripted_actor([]), "a").ask(says("question"), timeout=2, block=False)

    system.advance(2000)

    with pytest.raises(AskTimeoutError):
        reply.get(timeout=0)


def test_an_ask_without_a_timeout_uses_the_systems_default(system: SeededSystem) -> None:
    with pytest.raises(AskTimeoutError):
        system.spawn(scripted_actor([]), "a").ask(says("question"))

    assert system.manual_clock.now_ms() == 10_000


def test_the_asker_and_the_supervisor_are_both_notified_of_a_failure(system: SeededSystem) -> None:
    log: list[str] = []
    failures: list[ActorFailed] = []
    system.event_stream.subscribe(failures.append, ActorFailed)
    ref = system.spawn(scripted_actor(log, {"fail": fails}), "a")

    reply = ref.ask(says("fail"), block=False)
    system.run_until_idle()

    errors = []
    for _ in range(2):
        with pytest.raises(AskFailedError, match="as scripted") as failed:
            reply.get(timeout=0)
        errors.append(failed.value)
    assert errors[0] is not errors[1]
    assert errors[0].failure == failures[0].failure
    assert log[-1] == "a restart"


def test_an_ask_to_a_dead_actor_fails_at_once(system: SeededSystem) -> None:
    ref = system.spawn(scripted_actor([]), "a")
    ref.stop()

    with pytest.raises(pykka.ActorDeadError):
        ref.ask(says("question"))


def test_a_late_reply_is_a_dead_letter(system: SeededSystem) -> None:
    askers: list[Ref] = []
    letters: list[DeadLetter] = []
    system.event_stream.subscribe(letters.append, DeadLetter)

    def remember(context: ActorContext) -> None:
        assert context.sender is not None
        askers.append(context.sender)

    script = {"question": remember, "now": lambda _: askers[0].tell(says("late"))}
    ref = system.spawn(scripted_actor([], script), "a")
    with pytest.raises(AskTimeoutError):
        ref.ask(says("question"), timeout=1)

    ref.tell(says("now"))
    system.run_until_idle()

    assert [letter.message for letter in letters] == [says("late")]


def test_a_second_reply_is_ignored_and_reported(system: SeededSystem) -> None:
    letters: list[DeadLetter] = []
    system.event_stream.subscribe(letters.append, DeadLetter)
    ref = system.spawn(scripted_actor([], {"question": in_turn(replies, replies)}), "a")

    assert ref.ask(says("question")) == says("reply")
    assert len(letters) == 1


def test_a_cancelled_future_reports_its_cancellation(system: SeededSystem) -> None:
    reply = system.spawn(scripted_actor([]), "a").ask(says("question"), block=False)

    assert reply.cancel()
    assert not reply.cancel()

    with pytest.raises(FutureCancelledError):
        reply.get(timeout=0)
    assert system.manual_clock.next_due() is None


def ask(ref: ActorRef, word: str = "go") -> object:
    return ref.ask(says(word))


def ask_and_get(ref: ActorRef, word: str = "go") -> object:
    return ref.ask(says(word), block=False).get()


waits = pytest.mark.parametrize("wait", [ask, ask_and_get])


@waits
def test_an_ask_cycle_is_refused_with_the_names_of_its_actors(
    system: SeededSystem, wait: Callable[[ActorRef, str], object]
) -> None:
    failures: list[ActorFailed] = []
    system.event_stream.subscribe(failures.append, ActorFailed)

    def asks(path: str, word: str) -> Deed:
        return lambda context: wait(context.actor_selection(path).resolve()[0], word)

    # The question of c reaches a after a's wait has failed, and must not begin the next round.
    for name, other, word in (("a", "b", "go"), ("b", "c", "go"), ("c", "a", "go again")):
        system.spawn(scripted_actor([], {"go": asks(f"/user/{other}", word)}), name)
    system.run_until_idle()
    system.actor_selection("/user/a").tell(says("go"))
    system.run_until_idle()

    assert failures[0].failure.type_name == AskCycleError.__name__
    assert failures[0].failure.message == "/user/c#1 -> /user/a#1 -> /user/b#1 -> /user/c#1"


@waits
def test_a_self_ask_is_refused(system: SeededSystem, wait: Callable[[ActorRef], object]) -> None:
    caught: list[AskCycleError] = []

    def ask_myself(context: ActorContext) -> None:
        with pytest.raises(AskCycleError) as cycle:
            wait(context.ref)
        caught.append(cycle.value)

    system.spawn(scripted_actor([], {"start": ask_myself}), "a")
    system.run_until_idle()

    assert len(caught) == 1


def test_an_actor_may_read_its_own_reply_in_a_later_turn(tmp_path: Path) -> None:
    asked: list[Future[Message]] = []

    def poll(_context: ActorContext) -> None:
        with pytest.raises(AskTimeoutError):
            asked[-1].get(timeout=0)

    part: dict[str, Deed] = {
        "start": in_turn(
            lambda context: asked.append(context.ref.ask(says("question"), block=False)),
            poll,
        ),
        "question": replies,
        "late": lambda context: context.parent.tell(asked[-1].get(timeout=1)),
    }
    with SeededSystem(recorder=TraceRecorder(tmp_path / "run.trace")) as system:
        ref = system.spawn(scripted_actor([], part), "a")
        system.run_until_idle()
        ref.tell(says("late"))
        system.run_until_idle()

    assert TraceReplayer(actors={"/user/a": scripted_actor([], part)}).replay(tmp_path / "run.trace").ok


def test_a_refused_wait_for_a_reply_is_replayed(tmp_path: Path) -> None:
    def get_own_reply(context: ActorContext) -> None:
        with pytest.raises(AskCycleError) as cycle:
            ask_and_get(context.ref)
        context.parent.tell(says(str(cycle.value)))

    part = {"start": get_own_reply}
    with SeededSystem(recorder=TraceRecorder(tmp_path / "run.trace")) as system:
        system.spawn(scripted_actor([], part), "a")
        system.run_until_idle()

    assert TraceReplayer(actors={"/user/a": scripted_actor([], part)}).replay(tmp_path / "run.trace").ok


@pytest.mark.parametrize("timeout", ["5s", float("nan"), float("inf"), 1e12])
@pytest.mark.parametrize("block", [True, False])
def test_an_invalid_timeout_is_refused_before_anything_is_sent(
    threaded: ActorSystem, timeout: float, block: bool
) -> None:
    log: list[str] = []
    ref = threaded.spawn(scripted_actor(log, {"question": replies}), "a")

    with pytest.raises(ValueError, match="number of seconds"):
        ref.ask(says("mistaken"), timeout=timeout, block=block)
    with pytest.raises(ValueError, match="number of seconds"):
        ref.stop(timeout=timeout, block=block)

    ref.ask(says("question"), timeout=5)
    assert log == ["a start", "a question"]


def test_an_actor_that_has_replied_may_be_asked_by_the_asked_actor(threaded: ActorSystem) -> None:
    answers: list[object] = []

    def asks_back(context: ActorContext) -> None:
        replies(context)
        # At this moment the asker has the reply, but may not have resumed yet.
        answers.append(threaded.actor_selection("/user/asker").resolve()[0].ask(says("ask back")))

    asked = threaded.spawn(scripted_actor([], {"ask": asks_back, "sync": replies}), "asked")
    script = {"go": in_turn(lambda _: asked.ask(says("ask")), replies), "ask back": replies}
    asker = threaded.spawn(scripted_actor([], script), "asker")

    for _ in range(20):
        asker.ask(says("go"), timeout=5)
    asked.ask(says("sync"), timeout=5)

    assert answers == [says("reply")] * 20


async def test_a_reply_can_be_awaited_without_blocking_the_loop(threaded: ActorSystem) -> None:
    ref = threaded.spawn(scripted_actor([], {"question": replies}), "a")

    replies_in_order = await asyncio.gather(*(ref.ask(says("question"), block=False) for _ in range(20)))

    assert replies_in_order == [says("reply")] * 20


async def test_an_awaited_ask_does_not_block_the_loop(threaded: ActorSystem) -> None:
    silent = threaded.spawn(scripted_actor([]), "silent")
    other = threaded.spawn(scripted_actor([], {"question": replies}), "other")

    waiting = asyncio.ensure_future(_outcome(silent.ask(says("question"), block=False, timeout=0.1)))
    assert await other.ask(says("question"), block=False) == says("reply")

    assert isinstance(await waiting, AskTimeoutError)


async def _outcome(reply: object) -> BaseException | None:
    try:
        await reply  # type: ignore[misc]
    except AskTimeoutError as late:
        return late
    return None


def test_an_ask_from_another_thread_is_answered(threaded: ActorSystem) -> None:
    ref = threaded.spawn(scripted_actor([], {"question": replies}), "a")

    assert ref.ask(says("question"), timeout=5) == says("reply")
    threaded.kill(ref)
    with pytest.raises(ActorDeadError):
        ref.ask(says("question"), timeout=5)
