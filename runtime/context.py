"""The kernel's interface for an actor. It may be used in the actor's own turns only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from flykka.messages.wire.tags import name_in_trace
from flykka.runtime.cell.parts import Behaviours, Stash, refuse_behaviour
from flykka.runtime.cell.receive_timeout import ReceiveTimeoutTask
from flykka.runtime.dispatch.dispatcher import Pipe, describe_work
from flykka.runtime.durations import Duration, duration_ms, positive_duration_ms
from flykka.runtime.errors import DeathPactError
from flykka.runtime.events import UnhandledMessage
from flykka.runtime.futures.future import Future, Sleep
from flykka.runtime.futures.promise import PromiseRef
from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.path import absolute_path
from flykka.runtime.repeated_log import RepeatedLog
from flykka.runtime.signals import Stop, Terminated
from flykka.runtime.turn import record_effect

if TYPE_CHECKING:
    import random

    from flykka.messages.wire.ids import LeaderSessionId
    from flykka.messages.wire.message import Message
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.cell.parts import Behaviour, SupportsClose
    from flykka.runtime.dispatch.dispatcher import Executor
    from flykka.runtime.durations import Duration
    from flykka.runtime.props import Props
    from flykka.runtime.ref import ActorRef
    from flykka.runtime.selection import ActorSelection
    from flykka.runtime.system import ActorSystem
    from flykka.runtime.time.timers import Timers

T = TypeVar("T")

_repeated = RepeatedLog("flykka.runtime")


class ActorContext:
    """The interface of an actor to the kernel: its own ref, its parent and children, and every effect that a turn can
    have.
    """

    __slots__ = ("_cell",)

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    @property
    def ref(self) -> ActorRef:
        """The ref of this actor."""
        return self._cell.ref

    @property
    def path(self) -> str:
        """The path of this actor."""
        return self._cell.ref.path

    @property
    def sender(self) -> Ref | None:
        """The sender of the message being handled: for an ask, the ref to reply to; None from outside any actor."""
        return self._cell.sender

    @property
    def parent(self) -> ActorRef:
        """The parent of this actor."""
        parent = self._cell.parent
        return self._cell.ref if parent is None else parent.ref

    @property
    def children(self) -> Sequence[ActorRef]:
        """The children of this actor, in the order of their spawning."""
        return [child.ref for child in self._cell.children.all()]

    @property
    def system(self) -> ActorSystem:
        """The actor system."""
        return self._cell.system

    @property
    def timers(self) -> Timers:
        """The timers of this actor."""
        return self._cell.timers

    @property
    def random(self) -> random.Random:
        """Reproducible random numbers, seeded by the system's seed and this actor's path and incarnation."""
        return self._cell.seeded_random.random

    def now(self) -> int:
        """Return the time of this turn, in ms since the epoch. It does not change while a message is handled."""
        return self._cell.read_time()

    def new_id(self, prefix: str) -> str:
        """Return an id that is unique among actors of a system with this seed, and the same in a replay."""
        return self._cell.seeded_random.new_id(prefix)

    def spawn(self, props: Props, name: str) -> ActorRef:
        """Spawn a new child.

        Raises:
            InvalidActorNameError: the name is malformed, or a living child has it.
            SpawnRefusedError: this actor is stopping, so that no child of it could live.
        """
        return self._spawn(self._cell, props, name)

    def spawn_top_level(self, props: Props, name: str) -> ActorRef:
        """Spawn a new child of `/user`, which outlives this actor. Raises the errors of `spawn`."""
        return self._spawn(self._cell.system.user, props, name)

    def stop(self, ref: Ref | None = None) -> None:
        """Stop `ref`, or this actor by default, after the current turn and ahead of all waiting messages."""
        cell = self._cell
        target = cell.ref if ref is None else ref
        if cell.may_act("stop", target):
            child = cell.children.find(target)
            if child is None:
                cell.system.living(target).signal(Stop())
            else:
                cell.children.stop(child)

    def actor_selection(self, path: str) -> ActorSelection:
        """Select the actors living at `path` when a message is sent. Relative paths, like `../*`, start here."""
        return self._cell.system.actor_selection(absolute_path(self._cell.ref.path, path))

    def forward(self, ref: Ref, message: Message) -> None:
        """Send a message to `ref` with the current sender as its sender, as Akka's forward does.

        If the message was asked, the asker gets the reply of `ref`, or the error if `ref` fails or ends.
        """
        cell = self._cell
        if cell.system.serialize_messages:
            message = cell.system.wire(message)
        if cell.may_act("send", ref, message, None, True):
            asker = cell.sender if isinstance(cell.sender, PromiseRef) else None
            cell.system.living(ref).actor_inbox.put(Envelope(message, cell.sender, cell.sequence, asker))

    def reject(self, reason: str) -> None:
        """Make the message being handled a dead letter. Its ask fails."""
        cell = self._cell
        if cell.current is not None and cell.may_act("reject", reason):
            cell.system.dead_letters.reject(Envelope.wrap(cell.current), cell.ref, reason)

    def watch(self, ref: Ref, message: Message | None = None) -> None:
        """Send this actor `Terminated(ref)`, or `message`, once when `ref` has ended, even if it is already dead."""
        if message is not None and self._cell.system.serialize_messages:
            message = self._cell.system.wire(message)
        if self._cell.may_act("watch", ref, message):
            self._cell.death_watch.watch(ref, message)

    def unwatch(self, ref: Ref) -> None:
        """Cancel a `watch` of `ref`."""
        if self._cell.may_act("unwatch", ref):
            self._cell.death_watch.unwatch(ref)

    async def sleep(self, duration: Duration) -> None:
        """Wait for `duration`, such as "5s", by the system's clock. For coroutines, where `time.sleep` would block all
        actors.

        Other actors and this actor's signals continue; the next message of this actor waits.
        """
        rung = Sleep(self._cell.system.clock.now_ms() + duration_ms(duration, "sleep"))
        alarm = self._cell.system.clock.schedule(rung.due_ms, rung.set)
        try:
            await rung
        finally:
            alarm.cancel()

    def pipe_to_self(
        self,
        work: Callable[[], T] | Future[T],
        on_success: Callable[[T], Message],
        on_failure: Callable[[BaseException], Message],
        *,
        executor: Executor | None = None,
    ) -> None:
        """Run blocking `work` and send this actor the message that `on_success` or `on_failure` creates from its
        outcome.

        The work runs on the system's I/O pool, or on `executor`. `work` may also be a future, such as that of an ask:
        then nothing is run, and its outcome is sent. All three functions are called outside of this actor's turns, so
        they must not use its state.
        """
        cell = self._cell
        if not cell.may_act("pipe", *(() if cell.effects is None else (describe_work(work),))):
            return
        if isinstance(work, Future):
            pipe = Pipe(cell, lambda: work.get(timeout=0), on_success, on_failure)
            work.add_done_callback(pipe.run)
        else:
            cell.system.dispatcher.run_blocking_on(executor, Pipe(cell, work, on_success, on_failure))

    def own(self, resource: SupportsClose) -> None:
        """Close `resource`, exactly once, when this actor ends for any reason or is replaced by a restart.

        It is closed after `post_stop` if that runs. On a kill it is closed on the killing thread, which it must not
        block.
        """
        record_effect("own", name_in_trace(resource))
        self._cell.resources.own(resource)

    def stash(self) -> None:
        """Stash the message being handled, until `unstash_all`, a restart, or this actor's end (Akka's Stash).

        Raises:
            StashError: no message is being handled, or it is already stashed.
            StashOverflowError: the stash has reached `Props.with_stash_capacity`.
        """
        cell = self._cell
        if cell.stash is None:
            cell.stash = Stash(cell)
        cell.stash.stash(cell.current)

    def unstash_all(self) -> None:
        """Queue all stashed messages ahead of the waiting ones, in order."""
        stash = self._cell.stash
        if stash is not None and self._cell.may_act("unstash_all", len(stash)):
            stash.unstash_all()

    def become(self, behaviour: Behaviour, discard_old: bool = True) -> None:
        """Handle this actor's next messages with `behaviour`, a bound method or function. A restart drops it.

        With `discard_old=False` the current behaviour is kept below the new one, for `unbecome`.

        Raises:
            TypeError: `behaviour` cannot be called, or is a coroutine function and this actor is not on an event loop.
        """
        cell, instance = self._cell, self._cell.instance
        refuse_behaviour(behaviour, cell)
        if instance is not None:
            behaviours = cell.behaviours
            if behaviours is None:
                behaviours = cell.behaviours = Behaviours(cell, instance.handle_message)
            record_effect("become", getattr(behaviour, "__name__", "a callable"), discard_old)
            behaviours.become(behaviour, discard_old)

    def unbecome(self) -> None:
        """Return to the behaviour below the current one. Below the last one is `handle_message`."""
        behaviours = self._cell.behaviours
        if behaviours is not None:
            record_effect("unbecome")
            behaviours.unbecome()

    def set_receive_timeout(self, timeout: Duration | None) -> None:
        """Send this actor `ReceiveTimeout` whenever it has received no message for `timeout`. None cancels it.

        As in Akka it stays in effect through a restart, and messages marked `NotInfluenceReceiveTimeout` do not count.
        Unlike in Akka, the timeout is still valid on delivery: no other message was handled since.
        """
        cell, instance = self._cell, self._cell.instance
        timeout_ms = None if timeout is None else positive_duration_ms(timeout, "receive timeout")
        if not cell.may_act("set_receive_timeout", timeout_ms) or instance is None:
            return
        if cell.receive_timeout is not None:
            cell.receive_timeout.cancel()
        cell.receive_timeout = None if timeout_ms is None else ReceiveTimeoutTask(cell, timeout_ms)
        behaviours = cell.behaviours
        cell.set_behaviour(instance.handle_message if behaviours is None else behaviours.top)

    def accept_session(self, leader_session_id: LeaderSessionId) -> None:
        """Accept messages of this leader session. A restart revokes it."""
        record_effect("accept_session", leader_session_id)
        self._cell.sessions.accept(leader_session_id)

    def revoke_session(self, leader_session_id: LeaderSessionId) -> None:
        """Reject messages of this leader session from now on."""
        record_effect("revoke_session", leader_session_id)
        self._cell.sessions.revoke(leader_session_id)

    def unhandled(self, message: Message) -> None:
        """Log that `message` has no handler, and publish `UnhandledMessage` on the event stream.

        Raises:
            DeathPactError: `message` is the `Terminated` of an actor that this actor watches.
        """
        if isinstance(message, Terminated):
            raise DeathPactError(f"{self._cell.ref} watches {message.ref}, but does not handle its Terminated message")
        sender, recipient = self._cell.sender, self._cell.ref
        text = f"{recipient} has no handler for {type(message).__name__} from {sender or 'outside'}"
        _repeated.write(logging.WARNING, text, text)
        self.publish(UnhandledMessage(message=message, sender=sender, recipient=recipient))

    def publish(self, event: Message) -> None:
        """Publish `event` on the system's event stream."""
        if self._cell.may_act("publish", event):
            self._cell.system.event_stream.publish(event)

    def _spawn(self, parent: Cell, props: Props, name: str) -> ActorRef:
        return self._cell.system.spawn_in_turn(self._cell, parent, props, name)
