"""The stash: stashed messages return in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.messages.kernel.leader_session import LeaderSessionMessage
from flykka.messages.wire.ids import LeaderSessionId
from flykka.messages.wire.message import Message
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import StashError, StashOverflowError
from flykka.runtime.events import ActorFailed
from flykka.runtime.mailbox.message_queue import BoundedMailbox, ControlAwareMailbox, MailboxType, StablePriorityMailbox
from flykka.runtime.props import Props
from flykka.runtime.signals import Terminated
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.effects import Stash, UnstashAll
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.runtime.listener import lost_in, tell_all
from tests.runtime.scripted_actors import Deed, Say, says, scripted_actor
from tests.runtime.shop import Alarm, Drill, Open, Shop, shop


def test_unstashed_messages_are_handled_in_order_before_queued_ones(system: SeededSystem) -> None:
    log: list[str] = []
    ref = system.spawn(shop(log), "shop")

    tell_all(ref, "a", "b", "open", "c")
    system.run_until_idle()

    assert log == ["a", "b", "c"]


def test_a_stashed_message_keeps_its_sender(system: SeededSystem) -> None:
    senders: list[object] = []
    ref = system.spawn(Props(SenderKeeper, senders), "shop")
    asked = ref.ask(says("who"), block=False)
    teller = system.spawn(scripted_actor([], {"start": lambda _: ref.tell(says("who"))}), "teller")
    system.run_until_idle()
    assert senders == []

    ref.tell(says("open"))
    system.run_until_idle()

    assert teller in senders
    assert asked.get(timeout=0) == says("you")


class SenderKeeper(Shop):
    """Stashes questions until it is opened, and answers all of them afterwards."""

    def __init__(self, senders: list[object]) -> None:
        super().__init__([], {})
        self.senders = senders

    def handle_message(self, message: Message) -> None:
        if self.is_open:
            self.senders.append(self.context.sender)
            assert self.context.sender is not None
            self.context.sender.tell(says("you"))
        else:
            super().handle_message(message)


def test_stashing_an_unstashed_message_again_is_allowed(system: SeededSystem) -> None:
    log: list[str] = []
    ref = system.spawn(shop(log, {"retry": lambda context: context.unstash_all()}), "shop")

    tell_all(ref, "a", "b", "retry", "retry", "open")
    system.run_until_idle()

    assert log == ["a", "b"]


def test_stashing_the_same_message_twice_in_a_turn_fails(system: SeededSystem) -> None:
    errors: list[StashError] = []

    def twice(context: ActorContext) -> None:
        context.stash()
        with pytest.raises(StashError, match="/user/shop#1 stashes the same Say message twice") as raised:
            context.stash()
        errors.append(raised.value)

    system.spawn(shop([], {"twice": twice}), "shop").tell(says("twice"))
    system.run_until_idle()

    assert len(errors) == 1


def test_stashing_without_a_current_message_fails(system: SeededSystem) -> None:
    failures: list[ActorFailed] = []
    system.event_stream.subscribe(failures.append, ActorFailed)

    system.spawn(scripted_actor([], {"start": lambda context: context.stash()}), "a")
    system.run_until_idle()

    assert "can stash only while it handles a message" in failures[0].failure.stack_trace


def test_no_message_is_current_outside_turns(system: SeededSystem) -> None:
    kept: list[ActorContext] = []
    ref = system.spawn(scripted_actor([], {"keep": kept.append}), "a")
    asked = ref.ask(says("keep"), block=False)
    system.run_until_idle()

    assert kept[0].sender is None
    with pytest.raises(StashError, match="only while it handles a message"):
        kept[0].stash()
    assert not asked.done()


def test_a_full_stash_fails_its_actor(system: SeededSystem) -> None:
    failures: list[ActorFailed] = []
    system.event_stream.subscribe(failures.append, ActorFailed)
    log: list[str] = []
    ref = system.spawn(shop(log).with_stash_capacity(2), "shop")

    tell_all(ref, "a", "b", "c")
    system.run_until_idle()
    tell_all(ref, "open")
    system.run_until_idle()

    assert failures[0].failure.type_name == StashOverflowError.__name__
    assert failures[0].failure.message == (
        "/user/shop#1 cannot stash Say: 2 messages are stashed already, "
        "which is the limit set by Props.with_stash_capacity"
    )
    assert log == ["a", "b"]


@pytest.mark.parametrize("capacity", [0, -1, 2.0, True])
def test_a_stash_limit_must_be_a_positive_integer(capacity: object) -> None:
    with pytest.raises(ValueError, match="whole number above 0, not"):
        shop([]).with_stash_capacity(capacity)  # type: ignore[arg-type]


def test_a_stashed_timer_message_returns_after_its_timer_has_ended(system: SeededSystem) -> None:
    log: list[str] = []

    def begin(context: ActorContext) -> None:
        context.timers.start_once("t", 10, says("tick"))

    ref = system.spawn(shop(log, {"begin": begin}), "shop")
    tell_all(ref, "begin")
    system.advance(20)
    tell_all(ref, "open")
    system.run_until_idle()

    assert log == ["tick"]


@pytest.mark.parametrize("unwatched", [False, True])
def test_a_stashed_terminated_is_unstashed_unless_unwatched(system: SeededSystem, unwatched: bool) -> None:
    log: list[str] = []
    watched = system.spawn(scripted_actor([]), "watched")
    script: dict[str, Deed] = {
        "watch": lambda context: context.watch(watched),
        "unwatch": lambda context: context.unwatch(watched),
    }
    ref = system.spawn(shop(log, script), "shop")
    tell_all(ref, "watch")
    system.run_until_idle()
    watched.stop()
    system.run_until_idle()

    tell_all(ref, *(["unwatch"] if unwatched else []), "open")
    system.run_until_idle()

    assert log == ([] if unwatched else [Terminated.__name__])


def test_a_stashed_message_of_a_former_leader_is_not_handled(system: SeededSystem) -> None:
    letters = lost_in(system)
    log: list[str] = []
    session = LeaderSessionId("old")
    script: dict[str, Deed] = {
        "accept": lambda context: context.accept_session(session),
        "revoke": lambda context: context.revoke_session(session),
    }
    ref = system.spawn(shop(log, script), "shop")

    tell_all(ref, "accept")
    ref.tell(LeaderSessionMessage(leader_session_id=session, message=says("order")))
    tell_all(ref, "revoke", "open")
    system.run_until_idle()

    assert log == []
    assert letters[0].reason == "stale leader session old (accepted: none)"


def by_letter(message: Message) -> int:
    return ord(message.text[0]) if isinstance(message, Say) else 0


@pytest.mark.parametrize(
    ("mailbox", "order"),
    [
        (BoundedMailbox(2, "drop_new"), ["y", "x"]),
        (StablePriorityMailbox(by_letter), ["x", "y"]),
        (ControlAwareMailbox(), ["y", "x"]),
    ],
    ids=lambda given: type(given).__name__,
)
def test_every_mailbox_type_accepts_unstashed_messages(
    system: SeededSystem, mailbox: MailboxType, order: list[str]
) -> None:
    log: list[str] = []
    ref = system.spawn(shop(log).with_mailbox(mailbox), "shop")
    for text in ("y", "x"):
        tell_all(ref, text)
        system.run_until_idle()

    tell_all(ref, "open", "z")
    system.run_until_idle()

    assert log == [*order, "z"]


def test_unstashed_messages_precede_queued_messages_of_equal_priority(system: SeededSystem) -> None:
    log: list[str] = []
    ref = system.spawn(shop(log).with_mailbox(StablePriorityMailbox(lambda message: 0)), "shop")

    tell_all(ref, "a", "b", "c", "open", "d")
    system.run_until_idle()

    assert log == ["a", "b", "c", "d"]


def test_unstashed_messages_come_first_within_their_own_lane(system: SeededSystem) -> None:
    log: list[str] = []
    ref = system.spawn(shop(log).with_mailbox(ControlAwareMailbox()), "shop")
    for early in (says("a"), Alarm(), says("b")):
        ref.tell(early)
        system.run_until_idle()

    for late in (Open(), says("c"), Drill()):
        ref.tell(late)
    system.run_until_idle()

    assert log == ["Alarm", "Drill", "a", "b", "c"]


def test_unstashed_messages_are_accepted_by_a_full_mailbox(system: SeededSystem) -> None:
    log: list[str] = []
    ref = system.spawn(shop(log).with_mailbox(BoundedMailbox(2, "drop_oldest")), "shop")
    for text in "abc":
        tell_all(ref, text)
        system.run_until_idle()

    tell_all(ref, "open", "d")
    system.run_until_idle()

    assert log == ["a", "b", "c", "d"]


def test_the_trace_contains_the_stash(tmp_path: Path) -> None:
    with SeededSystem(recorder=TraceRecorder(tmp_path / "trace")) as system:
        tell_all(system.spawn(shop([]), "shop"), "a", "open")
        system.run_until_idle()

    effects = [effect for turn in TraceReader.open(tmp_path / "trace").turns for effect in turn.effects]
    assert [effect for effect in effects if isinstance(effect, Stash | UnstashAll)] == [Stash(), UnstashAll(count=1)]


def test_a_message_object_sent_twice_is_stashed_twice(system: SeededSystem) -> None:
    log: list[str] = []
    again = says("again")
    opened: list[bool] = []

    def waits(context: ActorContext) -> None:
        if not opened:
            context.stash()

    def opens(context: ActorContext) -> None:
        opened.append(True)
        context.unstash_all()

    ref = system.spawn(scripted_actor(log, {"again": waits, "open": opens}), "a")
    for message in (again, again, says("open")):
        ref.tell(message)
    system.run_until_idle()

    assert log == ["a start", "a again", "a again", "a open", "a again", "a again"]
