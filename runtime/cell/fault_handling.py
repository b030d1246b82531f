"""Supervision of an actor that raises: the failed cell is suspended, and its parent decides (Akka's FaultHandling).

1. The failed cell handles no message until a directive arrives, but it handles signals.
2. A tell and an ask are treated alike: the parent decides, and an asker gets the failure too.
3. A failure is matched by incarnation, so that an old failure cannot restart a new child with the same name.
4. Any BaseException is a failure of this actor only.
5. The last hook of an instance runs once: `pre_restart` if the instance is replaced, `post_stop` if the actor ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, assert_never

from flykka.runtime.cell.lifecycle import CellState
from flykka.runtime.errors import ActorInitializationError, serialized
from flykka.runtime.events import ActorFailed
from flykka.runtime.mailbox.envelope import FailedEnvelope, SignalEnvelope
from flykka.runtime.signals import BackoffEnded, Failed, Recreate, Resume
from flykka.runtime.supervision import Directive, RestartHistory
from flykka.runtime.turn import record_effect

if TYPE_CHECKING:
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.runtime.actor import Actor
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.supervision import SupervisorStrategy
    from flykka.runtime.time.clock import Alarm

P = ParamSpec("P")

logger = logging.getLogger("flykka.runtime")


class FaultHandling:
    """Both roles of a cell in supervision: the child that fails, and the parent that decides."""

    __slots__ = (
        "_backoff",
        "_cell",
        "_escalated",
        "_history",
        "_unstarted",
        "error",
        "last_failure",
        "pre_restart_ran",
        "restarted",
    )

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._backoff: Alarm | None = None
        self._escalated: tuple[Cell, ...] = ()
        """The children whose failures were escalated. They are suspended until this cell's own parent has decided."""
        self._unstarted = False
        self.error: BaseException | None = None
        """None once the parent has decided."""
        self.pre_restart_ran = False
        """True once `pre_restart` has run, so that the instance is about to be replaced."""
        self._history: RestartHistory | None = None
        self.restarted = 0
        self.last_failure: tuple[int, SerializedThrowable] | None = None
        """The time (ms) and text of the last failure, for inspection."""

    @property
    def history(self) -> RestartHistory:
        if self._history is None:
            self._history = RestartHistory()
        return self._history

    def fail(self, error: BaseException) -> SerializedThrowable:
        """Suspend the cell and let the parent decide. Returns the failure as text."""
        cell = self._cell
        failure = self.report(error)
        if cell.end_reason is None and cell.state not in (CellState.STOPPING, CellState.ENDING):
            cell.state = CellState.FAILED
            self.error = error
            assert cell.parent is not None, "the root actor has failed, but has no parent"
            signal = Failed(child=cell.ref, failure=failure)
            cell.parent.mailbox.put_signal(FailedEnvelope(signal, error, cell.ref, cell.sequence))
        return failure

    def report(self, error: BaseException) -> SerializedThrowable:
        cell = self._cell
        failure = serialized(error)
        self.last_failure = (cell.now(), failure)
        logger.error("%s failed: %s: %s\n%s", cell.ref, failure.type_name, failure.message, failure.stack_trace)
        cell.system.event_stream.publish(ActorFailed(ref=cell.ref, failure=failure))
        return failure

    def run_hook(self, hook: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Run a hook of an instance that is ending. A failure of the hook is reported, and the end continues."""
        try:
            hook(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - reported, not swallowed.
            self.report(error)

    def resume(self) -> SerializedThrowable | None:
        """Continue with the same instance. If no instance has started, create one, as Akka does."""
        if self._cell.state is not CellState.FAILED:
            return None
        if self._unstarted:
            return self.recreate(0)
        self.error = None
        escalated, self._escalated = self._escalated, ()
        self._cell.state = CellState.RUNNING
        for child in escalated:
            # The failure originated in this child, and the child is still suspended.
            child.ref.signal(Resume())
        return None

    def recreate(self, delay_ms: int) -> SerializedThrowable | None:
        """Drop the instance. A new instance is created when all children have ended and the delay has passed."""
        cell = self._cell
        if cell.state not in (CellState.FAILED, CellState.RUNNING):
            return None
        cell.state = CellState.RESTARTING
        cell.timers.cancel_all()
        cell.sessions.clear()
        if cell.instance is not None:
            self.run_hook(cell.instance.pre_restart, self.error)
        self.pre_restart_ran = True
        if cell.stash is not None:
            cell.stash.unstash_all()
        cell.resources.close_all()
        if delay_ms:
            self._wait_for(delay_ms)
        return self.finish_recreate()

    def on_backoff_ended(self) -> SerializedThrowable | None:
        self._backoff = None
        return self.finish_recreate()

    def cancel_backoff(self) -> None:
        if self._backoff is not None:
            self._backoff.cancel()

    def finish_recreate(self) -> SerializedThrowable | None:
        cell = self._cell
        if cell.state is not CellState.RESTARTING or cell.children.any_dying or self._backoff is not None:
            return None
        error, self.error = self.error, None
        self._escalated = ()
        survivors = cell.children.all()
        was_made, cell.instance, cell.behaviour = cell.instance is not None, None, None
        try:
            self._start_instance(cell.make_instance(), error, was_made)
        except BaseException as failure:  # noqa: BLE001 - any failure is the parent's to judge.
            return self.fail_to_start(failure)
        cell.state = CellState.RUNNING
        self._unstarted = False
        self.restarted += 1
        for child in survivors:
            # As in Akka, the children that `pre_restart` did not stop are restarted with their parent.
            child.ref.signal(Recreate())
        return None

    def fail_to_start(self, cause: BaseException) -> SerializedThrowable:
        self._unstarted = True
        error = ActorInitializationError(f"{self._cell.ref} could not start: {cause!r}")
        error.__cause__ = cause
        return self.fail(error)

    def _start_instance(self, instance: Actor, error: BaseException | None, was_made: bool) -> None:
        self.pre_restart_ran = False
        if was_made:
            instance.post_restart(error)
        else:
            instance.pre_start()

    def _wait_for(self, delay_ms: int) -> None:
        cell = self._cell
        mailbox = cell.mailbox
        ended = SignalEnvelope(BackoffEnded(), None, cell.sequence)
        self._backoff = cell.system.clock.schedule(cell.now() + delay_ms, lambda: mailbox.put_signal(ended))
        if cell.end_reason is not None:
            self.cancel_backoff()

    def on_failed(self, signal: Failed, error: BaseException | None) -> None:
        """Decide about a failed child that raised `error`, unless it was restarted with its siblings meanwhile."""
        cell = self._cell
        child = cell.children.find(signal.child)
        if child is None or cell.instance is None:
            return
        error = cell.system.undecided(child, signal, error)
        if error is None:
            return
        try:
            self._decide(cell.instance.supervisor_strategy, child, error)
        except BaseException as undecided:  # noqa: BLE001 - a decider that raises leaves it to the next one up.
            undecided.__context__ = undecided.__context__ or error
            self._escalate(child, undecided)

    def _decide(self, strategy: SupervisorStrategy, child: Cell, error: BaseException) -> None:
        cell = self._cell
        # The return value of a user's decider is checked here, so that no child waits for an invalid directive.
        directive = Directive(strategy.decider(error))
        match directive:
            case Directive.RESUME:
                record_effect("supervise", child.ref, directive.name, 0)
                child.ref.signal(Resume())
            case Directive.RESTART:
                delay_ms = strategy.delay_ms(child.faults.history, cell.now(), lambda: cell.seeded_random.random)
                for each in strategy.affected(child, cell.children.all()):
                    if strategy.may_restart(each.faults.history, cell.now()):
                        record_effect("supervise", each.ref, directive.name, delay_ms)
                        each.ref.signal(Recreate(delay_ms=delay_ms))
                    else:
                        self._stop(each)
            case Directive.STOP:
                for each in strategy.affected(child, cell.children.all()):
                    self._stop(each)
            case Directive.ESCALATE:
                self._escalate(child, error)
            case _:
                assert_never(directive)

    def _stop(self, child: Cell) -> None:
        record_effect("supervise", child.ref, Directive.STOP.name, 0)
        self._cell.children.stop(child)

    def _escalate(self, child: Cell, error: BaseException) -> None:
        record_effect("supervise", child.ref, Directive.ESCALATE.name, 0)
        self._escalated = (*self._escalated, child)
        # A cell that has already failed, or is being replaced, decides about this child together with its own
        # restart.
        if self._cell.state is CellState.RUNNING:
            self.fail(error)
