"""Actors of every mailbox type stash, change behaviour, fail and end at random; each message is handled once."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from flykka.messages.wire.message import ControlMessage, Message, message
from flykka.runtime.actor import Actor
from flykka.runtime.errors import StashOverflowError
from flykka.runtime.events import DeadLetter
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
from flykka.runtime.signals import ReceiveTimeout
from flykka.runtime.testing.seeded import SeededSystem


@message("test.task")
class Task(Message):
    """test -> worker: perform a random action; `token` identifies this message."""

    token: int


@message("test.urgent_task")
class UrgentTask(ControlMessage):
    """test -> worker: a Task that is a control message."""

    token: int


KINDS: list[MailboxType] = [
    UnboundedMailbox(),
    BoundedMailbox(3, "drop_new"),
    BoundedMailbox(3, "drop_oldest"),
    BoundedMailbox(3, "fail"),
    StablePriorityMailbox(lambda message: message.token % 3 if isinstance(message, Task | UrgentTask) else 0),
    ControlAwareMailbox(),
]


class Worker(Actor):
    def __init__(self, done: Counter[int], silences: list[int]) -> None:
        self.done = done
        self.silences = silences
        self.heard_at = 0

    def pre_start(self) -> None:
        self.heard_at = self.context.now()
        self.context.set_receive_timeout(20)

    def handle_message(self, message: Message) -> None:
        match message:
            case Task(token=token) | UrgentTask(token=token):
                self.go(token)
            case ReceiveTimeout():
                self.silences.append(self.context.now() - self.heard_at)
        self.heard_at = self.context.now()

    def other(self, message: Message) -> None:
        self.handle_message(message)

    def go(self, token: int) -> None:
        dice = self.context.random
        if dice.random() < 0.4:
            try:
                self.context.stash()
            except StashOverflowError:
                self.done[token] += 1  # The failing task was handled in this turn.
                raise
            return
        self.done[token] += 1
        if self.context.sender is not None:
            self.context.sender.tell(Task(token=token))
        match dice.randrange(8):
            case 0 | 1:
                self.context.unstash_all()
            case 2:
                self.context.become(self.other, discard_old=dice.random() < 0.5)
            case 3:
                self.context.unbecome()
            case 4 if dice.random() < 0.2:
                self.context.stop()
            case 5:
                raise RuntimeError("as the dice say")


@pytest.mark.parametrize("seed", range(24))
def test_each_message_is_handled_once_or_lost_once(seed: int) -> None:
    dice = random.Random(seed)
    done: Counter[int] = Counter()
    lost: Counter[int] = Counter()
    silences: list[int] = []
    asked: list[Future[Message]] = []
    tokens = itertools.count(1)
    with SeededSystem(seed) as system:
        system.event_stream.subscribe(lambda letter: lost.update([letter.message.token]), DeadLetter)

        def spawn(kind: MailboxType, number: int) -> ActorRef:
            props = Props(Worker, done, silences).with_mailbox(kind).with_stash_capacity(5)
            return system.spawn(props, f"worker{number}")

        numbers = itertools.count()
        workers = [spawn(kind, next(numbers)) for kind in KINDS]
        for _ in range(300):
            place = dice.randrange(len(workers))
            kind = Task if dice.random() < 0.7 else UrgentTask
            match dice.randrange(20):
                case 0:
                    system.kill(workers[place])
                    workers[place] = spawn(KINDS[place], next(numbers))
                case 1:
                    system.advance(dice.randrange(50))
                case 2:
                    system.run_until_idle()
                case 3 | 4:
                    system.schedule.step()
                case 5 | 6:
                    asked.append(workers[place].ask(kind(token=next(tokens)), block=False, timeout=1e6))
                case _:
                    workers[place].tell(kind(token=next(tokens)))

    assert set(done + lost) == set(range(1, next(tokens)))
    assert set((done + lost).values()) == {1}
    assert all(silence >= 20 for silence in silences)
    assert all(reply.done() for reply in asked)
