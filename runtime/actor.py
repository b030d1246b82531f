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
    """The base class of actors. The kernel creates each instance from Props, in the actor's turn; a restart creates a
    new instance.

    The hooks run in turns too, so they may send messages, spawn, watch and start timers. The calls are in this order:
    factory, `pre_start`, messages, children stopped, `post_stop`. At a restart: `pre_restart` on the old instance,
    factory, `post_restart` on the new one.
    """

    context: ActorContext

    supervisor_strategy: SupervisorStrategy = DEFAULT_STRATEGY

    mailbox: ClassVar[MailboxType | None] = None
    """The mailbox type of the actor if its Props name none (Akka's RequiresMessageQueue). None means the default."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if hasattr(cls, "on_receive") and cls.handle_message is Actor.handle_message:
            raise TypeError(
                f"{cls.__name__}.on_receive is a method of Pykka's actors: actors of this kernel implement"
                " handle_message"
            )

    def handle_message(self, message: Message) -> Awaitable[None] | None:
        """Handle one message. If this raises, the parent decides.

        If defined with `async def`, it runs on an event loop: other actors run while it awaits, and the next message of
        this actor waits until it has returned.
        """
        self.context.unhandled(message)
        return None

    def pre_start(self) -> None:
        """Start the actor. Called once, before its first message."""

    def post_stop(self) -> None:
        """Clean up. Called when all children have ended, also after a failure, but not after a kill."""

    def pre_restart(self, cause: BaseException | None) -> None:
        """Prepare for replacement by a new instance. By default stops the children and calls `post_stop`, as in Akka.

        `cause` is the failure, or None if a sibling has failed.
        """
        for child in self.context.children:
            self.context.stop(child)
        self.post_stop()

    def post_restart(self, cause: BaseException | None) -> None:
        """Start as the new instance. By default calls `pre_start`, as in Akka."""
        self.pre_start()
