"""Mailboxes of other kinds: with a limit, by urgency, and with a lane for control messages."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from flykka.messages.ids import LeaderSessionId
from flykka.messages.leader import LeaderSessionMessage
from flykka.messages.markers import ControlMessage
from flykka.messages.message import Message, message
from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.dispatch.pool import SharedPool
from flykka.runtime.errors import ActorDeadError, AskFailedError, MailboxOverflowError
from flykka.runtime.events import ActorFailed, DeadLetter, MailboxOverflowed
from flykka.runtime.future import Future
from flykka.runtime.mailboxes.bounded import BoundedMailbox, Overflow
from flykka.runtime.mailboxes.control_aware import ControlAwareMailbox
from flykka.runtime.mailboxes.message_queue import MailboxType, UnboundedMailbox
from flykka.runtime.mailboxes.priority import StablePriorityMailbox
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.reader import Trace
from flykka.runtime.trace.recorder import TraceRecorder
from flykka.runtime.trace.records import DeadLetterRecord
from tests.runtime.players import Deed, Say, player, replies, says

OVERFLOWS: tuple[Overflow, ...] = ("drop_new", "drop_oldest", "fail")


@message("test.order")
class Order(ControlMessage):
    """test -> listener: a word that cannot wait."""

    text: str = ""


@message("test.numbered")
class Numbered(Message):
    """teller -> listener: the `number`-th of this teller."""

    teller: int
    number: int


class Listener(Actor):
    """Logs the text of everything that it hears, and does what its part says for it."""

    def __init__(self, log: list[str], part: dict[str, Deed]) -> None:
        self.log = log
        self.part = part

    def handle_message(self, message: Message) -> None:
        text = message.text if isinstance(message, Say | Order) else type(message).__name__
        self.log.append(text)
        self.part.get(text, lambda _: None)(self.context)


def listener(
    system: ActorSystem, mailbox: MailboxType, log: list[str], part: dict[str, Deed] | None = None
) -> ActorRef:
    return system.spawn(Props(Listener, log, part or {}).with_mailbox(mailbox), "a")


def lost_in(system: ActorSystem) -> list[DeadLetter]:
    letters: list[DeadLetter] = []
    system.event_stream.subscribe(letters.append, DeadLetter)
    return letters


def tell_all(ref: ActorRef, texts: str) -> None:
    for text in texts:
        ref.tell(says(text))


# A limit


@pytest.mark.parametrize(
    ("overflow", "handled", "lost", "events"),
    [("drop_new", "ab", "cd", 0), ("drop_oldest", "cd", "ab", 0), ("fail", "ab", "cd", 2)],
)
def test_what_does_not_fit_is_a_dead_letter_that_says_why(
    system: SeededSystem, overflow: Overflow, handled: str, lost: str, events: int
) -> None:
    letters, overflows, log = lost_in(system), list[MailboxOverflowed](), list[str]()
    system.event_stream.subscribe(overflows.append, MailboxOverflowed)
    ref = listener(system, BoundedMailbox(2, overflow), log)

    tell_all(ref, "abcd")
    system.run_until_idle()
    tell_all(ref, "e")
    system.run_until_idle()

    assert "".join(log) == f"{handled}e"
    assert [letter.message for letter in letters] == [says(text) for text in lost]
    assert {letter.reason for letter in letters} == {"the mailbox is full: 2 messages wait"}
    assert overflows == [MailboxOverflowed(ref=ref, capacity=2)] * events


@pytest.mark.parametrize("overflow", OVERFLOWS)
def test_whose_question_is_lost_hears_of_it_at_once(system: SeededSystem, overflow: Overflow) -> None:
    ref = listener(system, BoundedMailbox(1, overflow), [], {"a": replies, "b": replies})

    first, second = ref.ask(says("a"), block=False), ref.ask(says("b"), block=False)

    lost, kept = (first, second) if overflow == "drop_oldest" else (second, first)
    assert lost.done()
    with pytest.raises(MailboxOverflowError, match="/user/a#1: the mailbox is full: 1 messages wait"):
        lost.get()
    assert kept.get(timeout=1) == says("reply")


def test_an_asking_actor_gets_the_overflow_as_an_error_of_its_turn(system: SeededSystem) -> None:
    failures: list[ActorFailed] = []
    system.event_stream.subscribe(failures.append, ActorFailed)
    full = listener(system, BoundedMailbox(1, "fail"), [])

    def overfill(_context: ActorContext) -> None:
        full.tell(says("x"))
        full.ask(says("y"))

    system.spawn(player([], {"go": overfill}), "asker").tell(says("go"))
    system.run_until_idle()

    assert [(failed.ref.path, failed.failure.type_name) for failed in failures] == [
        ("/user/asker", MailboxOverflowError.__name__)
    ]


@pytest.mark.parametrize("overflow", OVERFLOWS)
def test_what_the_kernel_owes_an_actor_finds_room_in_a_full_mailbox(system: SeededSystem, overflow: Overflow) -> None:
    log: list[str] = []
    victim = system.spawn(player([]), "victim")

    def begin(context: ActorContext) -> None:
        context.watch(victim)
        context.timers.start_once("t", 10, says("timer"))
        context.set_receive_timeout("10 ms")

    def fill(context: ActorContext) -> None:
        tell_all(context.ref, "xy")
        system.kill(victim)
        system.manual_clock.move_to(10)

    ref = listener(system, BoundedMailbox(2, overflow), log, {"begin": begin, "fill": fill})
    ref.tell(says("begin"))
    system.run_until_idle()
    ref.tell(says("fill"))
    system.run_until_idle()

    assert sorted(log) == ["Terminated", "begin", "fill", "timer", "x", "y"]


def test_of_what_waits_the_oldest_that_was_told_is_lost(system: SeededSystem) -> None:
    letters, log = lost_in(system), list[str]()

    def begin(context: ActorContext) -> None:
        context.timers.start_once("t", 10, says("timer"))

    def fill(context: ActorContext) -> None:
        system.manual_clock.move_to(10)  # Now the timer's message waits first.
        tell_all(context.ref, "abc")

    ref = listener(system, BoundedMailbox(2, "drop_oldest"), log, {"begin": begin, "fill": fill})
    ref.tell(says("begin"))
    ref.tell(says("fill"))
    system.run_until_idle()

    assert log == ["begin", "fill", "timer", "c"]
    assert [letter.message for letter in letters] == [says("a"), says("b")]


@pytest.mark.parametrize("overflow", OVERFLOWS)
def test_a_full_mailbox_keeps_no_one_from_stopping_its_actor(system: SeededSystem, overflow: Overflow) -> None:
    letters, log = lost_in(system), list[str]()
    ref = listener(system, BoundedMailbox(2, overflow), log)
    system.run_until_idle()
    tell_all(ref, "abc")

    assert ref.stop() is True
    ref.tell(says("late"))
    with pytest.raises(ActorDeadError):
        ref.ask(says("late"))

    assert log == []
    assert sorted(str(letter.message) for letter in letters) == sorted(map(str, map(says, [*"abc", "late", "late"])))
    assert Counter(letter.reason for letter in letters)["the recipient has stopped"] == 4


@pytest.mark.parametrize("overflow", OVERFLOWS)
def test_news_of_losses_that_are_lost_themselves_do_not_go_round_for_ever(
    system: SeededSystem, overflow: Overflow
) -> None:
    log: list[str] = []
    ref = listener(system, BoundedMailbox(2, overflow), log)
    system.event_stream.subscribe(ref, DeadLetter, MailboxOverflowed)
    gone = system.spawn(player([]), "gone")
    system.event_stream.subscribe(gone, DeadLetter)
    system.kill(gone)

    tell_all(ref, "abcdef")
    system.run_until_idle()

    assert len(log) == 2


def test_a_loss_is_in_the_record(tmp_path: Path) -> None:
    with SeededSystem(recorder=TraceRecorder(tmp_path / "trace")) as system:
        tell_all(listener(system, BoundedMailbox(1), []), "ab")
        system.run_until_idle()

    letters = [record for record in Trace.open(tmp_path / "trace").records() if isinstance(record, DeadLetterRecord)]
    assert [(letter.message, letter.reason) for letter in letters] == [
        (says("b"), "the mailbox is full: 1 messages wait")
    ]


@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, None])
def test_a_capacity_is_a_whole_number_above_0(capacity: object) -> None:
    with pytest.raises(ValueError, match="whole number above 0, not"):
        BoundedMailbox(capacity)  # type: ignore[arg-type]


def test_what_is_no_mailbox_is_refused_where_it_is_named() -> None:
    with pytest.raises(ValueError, match="'drop_new', 'drop_oldest' and 'fail'"):
        BoundedMailbox(1, "block")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a function of the message, not 3"):
        StablePriorityMailbox(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no kind of mailbox: 'bounded'"):
        player([]).with_mailbox("bounded")  # type: ignore[arg-type]


def test_a_mailbox_stays_with_its_props() -> None:
    props = player([]).with_mailbox(UnboundedMailbox()).with_dispatcher("pinned").with_stash_capacity(3)

    assert (props.mailbox, props.dispatcher, props.stash_capacity) == (UnboundedMailbox(), "pinned", 3)
    assert player([]).mailbox is None


# Urgency


def urgency(message: Message) -> int:
    text = message.text if isinstance(message, Say) else ""
    return int(text[0]) if text[:1].isdigit() else 5


def test_the_lowest_number_comes_first_and_equals_keep_their_order(system: SeededSystem) -> None:
    log: list[str] = []
    ref = listener(system, StablePriorityMailbox(urgency), log)

    for text in ("2a", "1a", "x", "2b", "1b", "y", "9"):
        ref.tell(says(text))
    system.run_until_idle()

    assert log == ["1a", "1b", "2a", "2b", "x", "y", "9"]


@pytest.mark.parametrize("broken", [lambda message: 1 // 0, lambda message: 0.5, lambda message: None])
def test_a_broken_priority_is_a_failure_of_the_actor_whose_mailbox_it_is(system: SeededSystem, broken: object) -> None:
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


def test_a_message_without_priority_is_a_dead_letter_where_its_actor_stops_first(system: SeededSystem) -> None:
    letters = lost_in(system)
    ref = listener(system, StablePriorityMailbox(lambda message: 1 // 0), [])
    system.run_until_idle()

    ref.tell(says("told"))
    reply = ref.ask(says("asked"), block=False)
    system.kill(ref)

    assert [letter.message for letter in letters] == [says("told"), says("asked")]
    with pytest.raises(ActorDeadError):
        reply.get()


# Control


def test_control_messages_overtake_and_both_lanes_keep_their_order(system: SeededSystem) -> None:
    log: list[str] = []
    ref = listener(system, ControlAwareMailbox(), log)

    for text in "aAbBcC":
        ref.tell(Order(text=text) if text.isupper() else says(text))
    system.run_until_idle()

    assert log == ["A", "B", "C", "a", "b", "c"]


def test_a_control_message_is_one_in_its_leaders_wrapping_too(system: SeededSystem) -> None:
    log: list[str] = []
    session = LeaderSessionId("s")
    ref = listener(system, ControlAwareMailbox(), log, {"accept": lambda context: context.accept_session(session)})
    ref.tell(says("accept"))
    system.run_until_idle()

    ref.tell(says("a"))
    ref.tell(LeaderSessionMessage(leader_session_id=session, message=Order(text="B")))
    system.run_until_idle()

    assert log == ["accept", "B", "a"]


def test_a_control_message_is_like_any_other_elsewhere(system: SeededSystem) -> None:
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
    """Notes what each teller told, and answers where it was asked."""

    def __init__(self, heard: dict[int, list[int]]) -> None:
        self.heard = heard

    def handle_message(self, message: Message) -> None:
        assert isinstance(message, Numbered)
        self.heard[message.teller].append(message.number)
        if self.context.sender is not None:
            self.context.sender.tell(message)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_on_threads_each_message_is_handled_or_lost_once_and_each_ask_ends(kind: MailboxType, end: str) -> None:
    heard: dict[int, list[int]] = defaultdict(list)
    lost: dict[int, list[int]] = defaultdict(list)
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
            answer = reply.get(timeout=0)
        except (ActorDeadError, MailboxOverflowError):
            continue
        assert isinstance(answer, Numbered)
        assert answer.number in heard[answer.teller]
