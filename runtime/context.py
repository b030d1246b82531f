"""What an actor sees of the kernel. Everything here is to be used in the actor's own turns only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from flykka.runtime.events import UnhandledMessage
from flykka.runtime.path import child_path
from flykka.runtime.pipe import Pipe
from flykka.runtime.signals import Stop

if TYPE_CHECKING:
    import random

    from flykka.messages.ids import LeaderSessionId
    from flykka.messages.message import Message
    from flykka.messages.ref import Ref
    from flykka.runtime.cell import Cell
    from flykka.runtime.props import Props
    from flykka.runtime.ref import ActorRef
    from flykka.runtime.resources import SupportsClose
    from flykka.runtime.system import ActorSystem
    from flykka.runtime.timers import Timers

T = TypeVar("T")


class ActorContext:
    """The actor's own ref, its surroundings, and every effect that a turn can have."""

    __slots__ = ("_cell",)

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    @property
    def ref(self) -> ActorRef:
        """Myself."""
        return self._cell.ref

    @property
    def path(self) -> str:
        """My path."""
        return self._cell.ref.path

    @property
    def sender(self) -> Ref | None:
        """Who told the message being handled; for an ask, where the reply goes; None from outside any actor."""
        return self._cell.sender

    @property
    def parent(self) -> ActorRef:
        """Who spawned me."""
        parent = self._cell.parent
        return self._cell.ref if parent is None else parent.ref

    @property
    def children(self) -> Sequence[ActorRef]:
        """My children, in the order of their spawning."""
        return [child.ref for child in self._cell.children.all()]

    @property
    def system(self) -> ActorSystem:
        """The system I live in."""
        return self._cell.system

    @property
    def timers(self) -> Timers:
        """My timers."""
        return self._cell.timers

    @property
    def random(self) -> random.Random:
        """Chance that repeats: seeded by the system's seed, my path and my incarnation."""
        return self._cell.chance.random

    def now(self) -> int:
        """The time of this turn, in ms since the epoch: it does not move while a message is handled."""
        return self._cell.now()

    def new_id(self, prefix: str) -> str:
        """An id that no other actor of a system with this seed makes, and that a replay makes again."""
        return self._cell.chance.new_id(prefix)

    def spawn(self, props: Props, name: str) -> ActorRef:
        """A new child.

        Raises:
            InvalidActorNameError: the name is malformed, or a living child has it.
            SpawnRefusedError: I am stopping, so that no child of mine could live.
        """
        return self._spawn(self._cell, props, name)

    def spawn_top_level(self, props: Props, name: str) -> ActorRef:
        """A new child of `/user`: it outlives me. Raises as `spawn` does."""
        return self._spawn(self._cell.system.user, props, name)

    def stop(self, ref: Ref | None = None) -> None:
        """Stop `ref`, or myself: behind the turn in hand, ahead of all messages that wait."""
        cell = self._cell
        target = cell.ref if ref is None else ref
        if cell.may_effect("stop", target):
            child = cell.children.find(target)
            if child is None:
                cell.system.living(target).signal(Stop())
            else:
                cell.children.stop(child)

    def watch(self, ref: Ref, message: Message | None = None) -> None:
        """Send me `Terminated(ref)`, or `message`, once when `ref` has ended, also when it is dead already."""
        if message is not None and self._cell.system.serialize_messages:
            message = self._cell.system.wire(message)
        if self._cell.may_effect("watch", ref, message):
            self._cell.death_watch.watch(ref, message)

    def unwatch(self, ref: Ref) -> None:
        """Send me nothing about the end of `ref`."""
        if self._cell.may_effect("unwatch", ref):
            self._cell.death_watch.unwatch(ref)

    def pipe_to_self(
        self,
        work: Callable[[], T],
        on_success: Callable[[T], Message],
        on_failure: Callable[[BaseException], Message],
    ) -> None:
        """Run blocking `work` on the system's I/O pool and send me what one of the two functions makes of its outcome.

        All three are called outside my turns: they must not touch my state.
        """
        if self._cell.may_effect("pipe"):
            pipe = Pipe(self._cell, work, on_success, on_failure)
            self._cell.system.dispatcher.run_blocking(pipe)

    def own(self, resource: SupportsClose) -> None:
        """Have `resource` closed, exactly once, when I end in whatever way or am replaced by a restart.

        As an operating system closes the files of a dead process: behind `post_stop` where that runs. On a kill it is
        closed from the killing thread, which must not be kept waiting.
        """
        self._cell.resources.own(resource)

    def accept_session(self, leader_session_id: LeaderSessionId) -> None:
        """Let through what is said under this leader session. A restart forgets it."""
        self._cell.sessions.accept(leader_session_id)

    def revoke_session(self, leader_session_id: LeaderSessionId) -> None:
        """Drop what is said under this leader session."""
        self._cell.sessions.revoke(leader_session_id)

    def unhandled(self, message: Message) -> None:
        """Say on the event stream that I do not know what to do with `message`."""
        self.publish(UnhandledMessage(message=message, sender=self._cell.sender, recipient=self._cell.ref))

    def publish(self, event: Message) -> None:
        """Publish `event` on the system's event stream."""
        if self._cell.end_reason is None:
            self._cell.system.event_stream.publish(event)

    def _spawn(self, parent: Cell, props: Props, name: str) -> ActorRef:
        cell = self._cell
        if cell.end_reason is not None:
            # A killed actor's turn may still run on its thread: what it spawns is born dead.
            return cell.system.dead_ref(child_path(parent.ref.path, name))
        child = cell.system.cells.attach(parent, props, name)
        cell.may_effect("spawn", child.ref)
        child.start()
        return child.ref
