"""Priority mailboxes, control-aware mailboxes, and every mailbox type on threads."""

from __future__ import annotations

import threading

import pytest

from flykka.messages.kernel.leader_session import LeaderSessionMessage
from flykka.messages.wire.ids import LeaderSessionId
from flykka.messages.wire.message import Message, message
from flykka.runtime.actor import Actor
from flykka.runtime.dispatch.pool import SharedPool
from flykka.runtime.errors import ActorDeadError, AskFailedError, MailboxOverflowError
from flykka.runtime.events import ActorFailed, DeadLetter
from flykka.runtime.futures.future import Future
from flykka.runtime.mailbox.message_queue import (
    BoundedMailbox,
    ControlAwareMailbox,
    MailboxType,
    StablePriorityMailbox,
    UnboundedMailbox,
)
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.listener import Order, listener, lost_in
from tests.runtime.scripted_actors import Say, says, scripted_actor


@message("test.numbered")
class Numbered(Message):
    """test -> listener: the `number`-th message from this sender."""

    teller: int
    number: int


def test_an_invalid_mailbox_is_refused_by_its_props() -> None:
    with pytest.raises(ValueError, match="'drop_new', 'drop_oldest' or 'fail'"):
        BoundedMailbox(1, "block")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a function of the message, not 3"):
        StablePriorityMailbox(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unknown mailbox 'bounded'"):
        scripted_actor([]).with_mailbox("bounded")  # type: ignore[arg-type]


def test_props_keep_mailbox_dispatcher_and_stash_capacity() -> None:
    props = scripted_actor([]).with_mailbox(UnboundedMailbox()).with_dispatcher("pinned").with_stash_capacity(3)

    assert (props.mailbox, props.dispatcher, props.stash_capacity) == (UnboundedMailbox(), "pinned", 3)
    assert scripted_actor([]).mailbox is None


# Priority mailbox


def urgency(message: Message) -> int:
    text = message.text if isinstance(message, Say) else ""
    return int(text[0]) if text[:1].isdigit() else 5


def test_the_lowest_number_comes_first_and_equal_numbers_keep_their_order(system: SeededSystem) -> None:
    log: list[str] = []
    ref = listener(system, StablePriorityMailbox(urgency), log)

    for text in ("2a", "1a", "x", "2b", "1b", "y", "9"):
        ref.tell(says(text))
    system.run_until_idle()

    assert log == ["1a", "1b", "2a", "2b", "x", "y", "9"]


@pytest.mark.parametrize("broken", [lambda message: 1 // 0, lambda message: 0.5, lambda message: None])
def test_a_failing_priority_function_fails_the_actor_of_the_mailbox(system: SeededSystem, broken: object) -> None:
    failures: list[ActorFailed] = []
    system.event_stream.subscribe(failures.append, ActorFailed)
    log: list[str] = []

    def priority(message: Message) -> int:
        return broken(message) if message == says("bad") else 0  # type: ignore[operator]

    ref = listener(system, StablePriorityMailbox(priority), log)
    ref.tell(says("good"))
    ref.tell(says("bad"))
    reply = ref.ask(says("bad"), block=False)
    system.run_until_idle()

    assert log == ["good"]
    assert [failed.ref for failed in failures] == [ref, ref]
    with pytest.raises(AskFailedError):
        reply.get()


def test_a_message_without_a_valid_priority_is_dead_after_a_stop(system: SeededSystem) -> None:
    letters = lost_in(system)
    ref = listener(system, StablePriorityMailbox(lambda message: 1 // 0), [])
    system.run_until_idle()

    ref.tell(says("told"))
    reply = ref.ask(says("asked"), block=False)
    system.kill(ref)

    assert [letter.message for letter in letters] == [says("told"), says("asked")]
    with pytest.raises(ActorDeadError):
        reply.get()


# Control-aware mailbox


def test_control_messages_overtake_others_and_each_lane_keeps_its_order(system: SeededSystem) -> None:
    log: list[str] = []
    ref = listener(system, ControlAwareMailbox(), log)

    for text in "aAbBcC":
        ref.tell(Order(text=text) if text.isupper() else says(text))
    system.run_until_idle()

    assert log == ["A", "B", "C", "a", "b", "c"]


def test_a_control_message_overtakes_within_a_leader_session_wrapper(system: SeededSystem) -> None:
    log: list[str] = []
    session = LeaderSessionId("s")
    ref = listener(system, ControlAwareMailbox(), log, {"accept": lambda context: context.accept_session(session)})
    ref.tell(says("accept"))
    system.run_until_idle()

    ref.tell(says("a"))
    ref.tell(LeaderSessionMessage(leader_session_id=session, message=Order(text="B")))
    system.run_until_idle()

    assert log == ["accept", "B", "a"]


def test_a_control_message_has_no_precedence_in_other_mailboxes(system: SeededSystem) -> None:
    log: list[str] = []
    ref = listener(system, UnboundedMailbox(), log)

    ref.tell(says("a"))
    ref.tell(Order(text="B"))
    system.run_until_idle()

    assert log == ["a", "B"]


# Threads

KINDS = [
    UnboundedMailbox(),
    BoundedMailbox(20, "drop_new"),
    BoundedMailbox(20, "drop_oldest"),
    BoundedMailbox(20, "fail"),
    StablePriorityMailbox(lambda message: 0),
    ControlAwareMailbox(),
]


class Counting(Actor):
    def __init__(self, heard: dict[int, list[int]]) -> None:
        self.heard = heard

    def handle_message(self, message: Message) -> None:
        assert isinstance(message, Numbered)
        self.heard[message.teller].append(message.number)
        if self.context.sender is not None:
            self.context.sender.tell(message)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__ + getattr(kind, "overflow", ""))
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_with_threads_each_message_is_either_handled_once_or_lost(kind: MailboxType, end: str) -> None:
    heard: dict[int, list[int]] = {teller: [] for teller in range(3)}
    lost: dict[int, list[int]] = {teller: [] for teller in range(3)}
    replies: list[Future[Message]] = []

    def tell(ref: ActorRef, teller: int) -> None:
        for number in range(100):
            message = Numbered(teller=teller, number=number)
            if number % 10:
                ref.tell(message)
            else:
                replies.append(ref.ask(message, block=False, timeout=60))
            if number == 50 and teller == 0:
                ref.stop(block=False) if end == "stop" else system.kill(ref)

    def note(letter: DeadLetter) -> None:
        assert isinstance(letter.message, Numbered)
        lost[letter.message.teller].append(letter.message.number)

    with ActorSystem("threads", dispatcher=SharedPool(2, throughput=3)) as system:
        system.event_stream.subscribe(note, DeadLetter)
        ref = system.spawn(Props(Counting, heard).with_mailbox(kind), "counting")
        tellers = [threading.Thread(target=tell, args=(ref, teller)) for teller in range(3)]
        for thread in tellers:
            thread.start()
        for thread in tellers:
            thread.join()

    for teller in range(3):
        assert heard[teller] == sorted(heard[teller])
        assert sorted([*heard[teller], *lost[teller]]) == list(range(100))
    for reply in replies:
        try:
            answer = reply.get(timeout=60)  # The turn of a killed actor may end after the system has terminated.
        except (ActorDeadError, MailboxOverflowError):
            continue
        assert isinstance(answer, Numbered)
        assert answer.number in heard[answer.teller]
