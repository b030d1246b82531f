"""An actor that restarts its only child with growing delays (Akka's BackoffSupervisor with BackoffOpts).

It is meant for a child whose resource is temporarily unavailable. Other actors send messages to the supervisor, whose
ref stays valid, while the child is a new incarnation each time. Messages in the child's mailbox are lost when it stops,
as in Akka. To keep the child's ref and mailbox, use `OneForOne(backoff=Backoff(...))`, which restarts it in place.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.actor import Actor
from flykka.runtime.durations import Duration
from flykka.runtime.errors import StashOverflowError
from flykka.runtime.props import Props
from flykka.runtime.signals import Terminated
from flykka.runtime.supervision import DEFAULT_STRATEGY, Directive, SupervisorStrategy
from flykka.runtime.time.backoff import Backoff

if TYPE_CHECKING:
    from flykka.runtime.ref import ActorRef


@message("backoff.get_current_child")
class GetCurrentChild(Message):
    """anyone -> BackoffSupervisor: return the current child. The reply is a `CurrentChild`."""


@message("backoff.current_child")
class CurrentChild(Message):
    """BackoffSupervisor -> asker: the current child, or None during a delay."""

    ref: Ref | None


@message("backoff.get_restart_count")
class GetRestartCount(Message):
    """anyone -> BackoffSupervisor: return the number of consecutive restarts. The reply is a `RestartCount`."""


@message("backoff.restart_count")
class RestartCount(Message):
    """BackoffSupervisor -> asker: the number of consecutive restarts."""

    count: int


@message("backoff.reset")
class Reset(Message):
    """child or anyone -> BackoffSupervisor with manual reset: start the delays again from the shortest."""


@message("backoff.start_child")
class _StartChild(Message):
    """BackoffSupervisor -> itself: the delay has ended."""


@message("backoff.reset_restart_count")
class _ResetRestartCount(Message):
    """BackoffSupervisor -> itself: the child has lived long enough."""


@trace_tag("backoff.trigger")
class BackoffTrigger(Enum):
    ON_FAILURE = auto()
    ON_STOP = auto()


@trace_tag("backoff.options")
@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffOptions:
    """The options of a `BackoffSupervisor`. Create them with `BackoffOpts.on_failure` and `BackoffOpts.on_stop`.

    Args:
        child: the Props of the child.
        child_name: its name, the same each time.
        trigger: the event after which it is restarted.
        backoff: the delays. Its `reset_after` is the auto-reset; if it is None, `min_backoff`, as in Akka.
        manual_reset: reset the delays only by a `Reset`.
        max_retries: stop child and supervisor after this number of consecutive restarts; None for no limit.
        strategy: decides about failures of the child. By default, as in Akka, exceptions restart the child.
        reply_while_stopped: the reply to senders while there is no child.
        handler_while_stopped: the actor that gets the messages while there is no child.
        stash_while_stopped: the number of messages to keep for the next child. At most one of these three is set.
            Otherwise, or if the stash is full, messages are dead letters while there is no child.
    """

    child: Props
    child_name: str
    trigger: BackoffTrigger
    backoff: Backoff = field(default_factory=Backoff)
    manual_reset: bool = False
    max_retries: int | None = None
    strategy: SupervisorStrategy = DEFAULT_STRATEGY
    reply_while_stopped: Message | None = None
    handler_while_stopped: Ref | None = None
    stash_while_stopped: int = 0

    def __post_init__(self) -> None:
        choices = [self.reply_while_stopped is not None, self.handler_while_stopped is not None]
        if sum(choices) + (self.stash_while_stopped > 0) > 1:
            raise ValueError(
                "only one rule for messages while the child is stopped is allowed: choose one of reply_while_stopped,"
                " handler_while_stopped and stash_while_stopped"
            )

    def with_auto_reset(self, reset_after: Duration) -> BackoffOptions:
        """Reset the delays when the child has lived for this time."""
        return replace(self, backoff=replace(self.backoff, reset_after=reset_after), manual_reset=False)

    def with_manual_reset(self) -> BackoffOptions:
        """Reset the delays only when a `Reset` arrives."""
        return replace(self, manual_reset=True)

    def with_max_retries(self, max_retries: int) -> BackoffOptions:
        """Stop after this number of consecutive restarts."""
        return replace(self, max_retries=max_retries)

    def with_supervisor_strategy(self, strategy: SupervisorStrategy) -> BackoffOptions:
        """Decide about the child's failures with `strategy`. Its restarts are delayed."""
        return replace(self, strategy=strategy)

    def with_reply_while_stopped(self, reply: Message) -> BackoffOptions:
        """Reply with `reply` to every message while there is no child."""
        return replace(self, reply_while_stopped=reply)

    def with_handler_while_stopped(self, handler: Ref) -> BackoffOptions:
        """Forward messages to `handler` while there is no child."""
        return replace(self, handler_while_stopped=handler)

    def with_stash_while_stopped(self, capacity: int) -> BackoffOptions:
        """Keep up to `capacity` messages for the next child."""
        return replace(self, stash_while_stopped=capacity)


class BackoffOpts:
    """Factories for the two variants of options, with Akka's names."""

    @staticmethod
    def on_failure(
        child: Props,
        child_name: str,
        *,
        min_backoff: Duration = "1s",
        max_backoff: Duration = "30s",
        random_factor: float = 0.2,
    ) -> BackoffOptions:
        """Restart a failing child after a delay, if the strategy decides on a restart.

        If the child stops for another reason, the supervisor stops too.
        """
        backoff = Backoff(min_backoff=min_backoff, max_backoff=max_backoff, random_factor=random_factor)
        return BackoffOptions(child=child, child_name=child_name, trigger=BackoffTrigger.ON_FAILURE, backoff=backoff)

    @staticmethod
    def on_stop(
        child: Props,
        child_name: str,
        *,
        min_backoff: Duration = "1s",
        max_backoff: Duration = "30s",
        random_factor: float = 0.2,
    ) -> BackoffOptions:
        """Restart a child after a delay whenever it stops, even if it could not start.

        If the strategy decides on a restart, that restart happens at once and does not count, as in Akka.
        """
        backoff = Backoff(min_backoff=min_backoff, max_backoff=max_backoff, random_factor=random_factor)
        return BackoffOptions(child=child, child_name=child_name, trigger=BackoffTrigger.ON_STOP, backoff=backoff)


@trace_tag("actor.backoff_supervisor")
class BackoffSupervisor(Actor):
    """A supervisor that forwards all messages to its child, and the child's messages to its own parent."""

    @staticmethod
    def props(options: BackoffOptions) -> Props:
        """Create the Props: `system.spawn(BackoffSupervisor.props(BackoffOpts.on_stop(...)), "db")`."""
        props = Props(BackoffSupervisor, options)
        return props.with_stash_capacity(options.stash_while_stopped) if options.stash_while_stopped else props

    def __init__(self, options: BackoffOptions) -> None:
        self._options = options
        self._child: ActorRef | None = None
        self._restarts = 0
        self._gives_up = False
        self._failed = False
        strategy = options.strategy
        if options.trigger is BackoffTrigger.ON_FAILURE:
            strategy = replace(strategy, decider=self._decide)
        self.supervisor_strategy = strategy

    def pre_start(self) -> None:
        """Start the child at once."""
        self._start_child()

    def handle_message(self, message: Message) -> None:
        """Handle the supervisor's own messages, and forward all others to the child."""
        match message:
            case _StartChild():
                self._start_child()
            case _ResetRestartCount():
                self._restarts = 0
            case Terminated(ref=ref) if ref == self._child:
                self._on_child_stopped()
            case GetCurrentChild():
                self._reply(CurrentChild(ref=self._child))
            case GetRestartCount():
                self._reply(RestartCount(count=self._restarts))
            case Reset() if self._options.manual_reset:
                self._restarts = 0
            case _ if self._child is None:
                self._on_message_while_stopped(message)
            case _ if self.context.sender == self._child:
                self.context.forward(self.context.parent, message)
            case _:
                self.context.forward(self._child, message)

    def _start_child(self) -> None:
        context, options = self.context, self._options
        self._failed = False
        self._child = context.spawn(options.child, options.child_name)
        context.watch(self._child)
        if not options.manual_reset:
            backoff = options.backoff
            reset_after_ms = backoff.min_ms if backoff.reset_after is None else backoff.reset_after_ms
            context.timers.start_once("reset", reset_after_ms, _ResetRestartCount())
        context.unstash_all()

    def _decide(self, error: BaseException) -> Directive:
        directive = Directive(self._options.strategy.decider(error))
        if directive is not Directive.RESTART:
            return directive
        self._failed = True
        return Directive.STOP

    def _on_child_stopped(self) -> None:
        context, options = self.context, self._options
        self._child = None
        context.timers.cancel("reset")
        should_restart = self._failed or options.trigger is BackoffTrigger.ON_STOP
        if not should_restart or (options.max_retries is not None and self._restarts >= options.max_retries):
            context.stop()
            return
        delay_ms = options.backoff.delay_ms(self._restarts, context.random)
        self._restarts += 1
        context.timers.start_once("start", delay_ms, _StartChild())

    def _on_message_while_stopped(self, message: Message) -> None:
        options = self._options
        if options.reply_while_stopped is not None:
            self._reply(options.reply_while_stopped)
        elif options.handler_while_stopped is not None:
            self.context.forward(options.handler_while_stopped, message)
        elif options.stash_while_stopped:
            self._stash()
        else:
            self.context.reject("its child is stopped, and will be restarted")

    def _stash(self) -> None:
        try:
            self.context.stash()
        except StashOverflowError as full:
            self.context.reject(str(full))

    def _reply(self, reply: Message) -> None:
        sender = self.context.sender
        if sender is not None:
            sender.tell(reply)
