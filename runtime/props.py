"""Props: recipes of actors, which the kernel keeps and uses again for every restart."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Literal, get_args

from flykka.messages.wire.tags import name_in_trace
from flykka.runtime.actor import Actor

if TYPE_CHECKING:
    from flykka.runtime.mailbox.message_queue import MailboxType

DispatcherName = Literal["default", "pinned", "loop"]


class Props:
    """An actor class or factory with its arguments. The arguments are live objects and are never sent in a message.

    Every restart calls the factory again. All instances of the actor share the objects that the factory closes over.
    """

    __slots__ = ("args", "dispatcher", "factory", "kwargs", "mailbox", "may_block", "stash_capacity")

    def __init__(self, factory: Callable[..., Actor], *args: Any, **kwargs: Any) -> None:
        _refuse_factory(factory)
        self.factory = factory
        self.args = args
        self.kwargs = kwargs
        self.dispatcher: DispatcherName = "loop" if _is_coroutine_actor(factory) else "default"
        self.may_block = False
        """True if turns may take any time, so that the watchdog does not report them."""
        self.mailbox: MailboxType | None = self.actor_class.mailbox
        """The mailbox type, or None for the default type, which is unbounded."""
        self.stash_capacity: int | None = None

    @property
    def factory_name(self) -> str:
        """The name of the class or function in a trace."""
        return name_in_trace(self.factory)

    @property
    def actor_class(self) -> type[Actor]:
        """The class of the actor, or `Actor` if a function creates the actor."""
        return self.factory if isinstance(self.factory, type) else Actor

    @property
    def arguments(self) -> tuple[object, ...]:
        """The arguments of the factory: by position, then by name."""
        return (*self.args, *self.kwargs.values())

    def with_dispatcher(self, dispatcher: DispatcherName, *, may_block: bool = True) -> Props:
        """Return these Props with another dispatcher.

        `pinned` gives the actor its own thread, so that it may block; with `may_block=False` the watchdog still reports
        its slow turns. `loop` runs it on the system's event loop: its `handle_message` may be a coroutine function, for
        which `loop` is the default.
        """
        if dispatcher not in get_args(DispatcherName):
            raise ValueError(f"unknown dispatcher {dispatcher!r}: use 'default', 'pinned' or 'loop'")
        if dispatcher != "loop" and _is_coroutine_actor(self.factory):
            raise ValueError(f"the handle_message of {self} is a coroutine function: {_ON_THE_LOOP}")
        props = copy(self)
        props.dispatcher = dispatcher
        props.may_block = may_block and dispatcher == "pinned"
        return props

    def with_mailbox(self, mailbox: MailboxType) -> Props:
        """Return these Props with another mailbox type, such as `BoundedMailbox(1000)`."""
        if not callable(getattr(mailbox, "create", None)):
            raise TypeError(f"unknown mailbox {mailbox!r}: use a value such as BoundedMailbox(1000)")
        props = copy(self)
        props.mailbox = mailbox
        return props

    def with_stash_capacity(self, capacity: int) -> Props:
        """Return these Props with a limit of stashed messages. One more message raises `StashOverflowError`."""
        if type(capacity) is not int or capacity < 1:
            raise ValueError(f"the capacity of a stash must be a whole number above 0, not {capacity!r}")
        props = copy(self)
        props.stash_capacity = capacity
        return props

    def make(self) -> Actor:
        """Create a new instance. Called in the actor's own turn."""
        instance = self.factory(*self.args, **self.kwargs)
        # A class was checked when the Props were created. The result of a factory function is not known until now.
        if self.dispatcher != "loop" and not isinstance(self.factory, type) and _is_coroutine_actor(instance):
            raise TypeError(f"{type(instance).__name__}.handle_message is a coroutine function: {_ON_THE_LOOP}")
        return instance

    def __repr__(self) -> str:
        return f"Props({getattr(self.factory, '__qualname__', self.factory)})"


def require_props(props: object) -> Props:
    if isinstance(props, Props):
        return props
    raise TypeError(f"an actor is spawned from Props(SomeActor, ...), not from {props!r}")


def _refuse_factory(factory: object) -> None:
    if not callable(factory):
        raise TypeError(f"Props take a class or function and its arguments, Props(SomeActor, ...), not {factory!r}")
    if isinstance(factory, type) and not issubclass(factory, Actor):
        raise TypeError(f"{factory.__qualname__} does not derive from flykka.runtime.Actor")


_ON_THE_LOOP = "only Props.with_dispatcher('loop') can run it"


def _is_coroutine_actor(actor_or_factory: object) -> bool:
    return iscoroutinefunction(getattr(actor_or_factory, "handle_message", None))
