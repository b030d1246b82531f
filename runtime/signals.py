"""Signals of the kernel to its cells, in a lane that overtakes the mailbox, and its messages to actors.

Signals never reach `Actor.handle_message`. They are declared messages so that a trace can record them.
"""

from __future__ import annotations

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref


class Signal(Message):
    """The base class of the lifecycle messages between cells."""

    __slots__ = ()


@message("kernel.create")
class Create(Signal):
    """spawner -> child: create the instance and start it."""


@message("kernel.stop")
class Stop(Signal):
    """anyone -> cell: stop the children, then the cell."""


@message("kernel.failed")
class Failed(Signal):
    """child -> parent: the child has failed and waits for a directive."""

    child: Ref
    failure: SerializedThrowable


@message("kernel.resume")
class Resume(Signal):
    """parent -> failed child: continue as if nothing had happened."""


@message("kernel.recreate")
class Recreate(Signal):
    """parent -> child: replace the instance in `delay_ms`. Ref and mailbox stay."""

    delay_ms: int = 0


@message("kernel.backoff_ended")
class BackoffEnded(Signal):
    """clock -> cell: the delay before the new instance has ended."""


@message("kernel.watch")
class Watch(Signal):
    """watcher -> watched: notify the watcher when this actor ends."""

    watcher: Ref


@message("kernel.unwatch")
class Unwatch(Signal):
    """watcher -> watched: stop notifying the watcher."""

    watcher: Ref


@message("kernel.death_watch_notification")
class DeathWatchNotification(Signal):
    """ended cell -> parent and watchers: the cell has ended. This is its last message."""

    ref: Ref


@message("kernel.pipe_failed")
class PipeFailed(Signal):
    """I/O pool -> cell: no message could be created from the outcome of the cell's work, so the cell fails."""

    failure: SerializedThrowable


@message("kernel.terminated")
class Terminated(Message):
    """kernel -> watcher: the watched actor `ref` has ended, or was already dead."""

    ref: Ref


@message("kernel.receive_timeout")
class ReceiveTimeout(Message):
    """kernel -> actor: the actor has received no message for the time set by `context.set_receive_timeout`."""


@message("kernel.state_timeout")
class StateTimeout(Message):
    """FSM -> itself: no message has arrived within the timeout of this state."""


@message("kernel.unread")
class Unread(Message):
    """fork of a trace -> actor that is not replayed: stands for a message whose class this process does not have."""
