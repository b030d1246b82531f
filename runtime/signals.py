"""Signals of the kernel to its cells, in a lane that overtakes the mailbox; and its messages to actors.

Signals never reach `Actor.handle_message`. They are declared messages so that a trace can record them.
"""

from __future__ import annotations

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref


class Signal(Message):
    """Base class of the lifecycle messages between cells."""

    __slots__ = ()


@message("kernel.create")
class Create(Signal):
    """spawner -> child: create your instance and start it."""


@message("kernel.stop")
class Stop(Signal):
    """anyone -> cell: stop your children, then yourself."""


@message("kernel.failed")
class Failed(Signal):
    """child -> parent: I failed and wait for your directive."""

    child: Ref
    failure: SerializedThrowable


@message("kernel.resume")
class Resume(Signal):
    """parent -> failed child: continue as if nothing had happened."""


@message("kernel.recreate")
class Recreate(Signal):
    """parent -> child: replace your instance in `delay_ms`; ref and mailbox stay."""

    delay_ms: int = 0


@message("kernel.backoff_ended")
class BackoffEnded(Signal):
    """clock -> cell: the delay before your new instance has ended."""


@message("kernel.watch")
class Watch(Signal):
    """watcher -> watched: notify me when you end."""

    watcher: Ref


@message("kernel.unwatch")
class Unwatch(Signal):
    """watcher -> watched: stop notifying me."""

    watcher: Ref


@message("kernel.death_watch_notification")
class DeathWatchNotification(Signal):
    """ended cell -> parent and watchers: I have ended; this is my last message."""

    ref: Ref


@message("kernel.pipe_failed")
class PipeFailed(Signal):
    """I/O pool -> cell: no message could be created from the outcome of your work, so you fail."""

    failure: SerializedThrowable


@message("kernel.terminated")
class Terminated(Message):
    """kernel -> watcher: the watched actor `ref` has ended, or was dead already."""

    ref: Ref


@message("kernel.receive_timeout")
class ReceiveTimeout(Message):
    """kernel -> actor: you have received no message for the time set by `context.set_receive_timeout`."""


@message("kernel.state_timeout")
class StateTimeout(Message):
    """FSM -> itself: no message has arrived within the timeout of this state."""


@message("kernel.unread")
class Unread(Message):
    """fork of a trace -> actor that is not replayed: stands for a message whose class this process does not have."""
