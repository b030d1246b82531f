"""The base class of actors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from flykka.runtime.supervision import DEFAULT_STRATEGY, SupervisorStrategy

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from flykka.messages.wire.message import Message
    from flykka.runtime.context import ActorContext
    from flykka.runtime.mailbox.message_queue import MailboxType


class Actor:
    """Instance of an actor. The kernel makes it, in its own turn, from its Props; a restart makes another one.

    The hooks run in turns too, so they may tell, spawn, watch and start timers. Order of a life: factory, `pre_start`,
    messages, children stopped, `post_stop`. Order of a restart: `pre_restart` on the old instance, factory,
    `post_restart` on the new one.
    """

    context: ActorContext
    """Set before `pre_start`."""

    supervisor_strategy: SupervisorStrategy = DEFAULT_STRATEGY
    """Decides about children that fail."""

    mailbox: ClassVar[MailboxType | None] = None
    """Mailbox of the actor where its Props name no other (Akka's RequiresMessageQueue); None: the default."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if hasattr(cls, "on_receive") and cls.handle_message is Actor.handle_message:
            raise TypeError(f"{cls.__name__}.on_receive is Pykka's way: here messages come to handle_message")

    def handle_message(self, message: Message) -> Awaitable[None] | None:
        """Handle one message; if it raises, the parent decides.

        Written as `async def`, it runs on an event loop: other actors go on while it awaits, and the next message of
        this one waits until it has returned.
        """
        self.context.unhandled(message)
        return None

    def pre_start(self) -> None:
        """Start; called once, before the first message of an actor."""

    def post_stop(self) -> None:
        """Stop; called when all children have ended, also after a failure, but not on a kill."""

    def pre_restart(self, cause: BaseException | None) -> None:
        """Give way to a new instance. As in Akka: the children are stopped, then `post_stop` runs.

        `cause` is None where the failure was a sibling's.
        """
        for child in self.context.children:
            self.context.stop(child)
        self.post_stop()

    def post_restart(self, cause: BaseException | None) -> None:
        """Start as a new instance. As in Akka: `pre_start` runs."""
        self.pre_start()
