"""What happens when an actor raises: the failed cell stands still, its parent decides (Akka's FaultHandling).

1. The failed cell handles no message until a directive comes; signals go on.
2. Told or asked makes no difference: the parent decides either way, and an asker gets the failure too.
3. A failure is compared by incarnation, so that an old one cannot restart a new child of the same name.
4. Any BaseException is a failure of this actor and of nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, assert_never

from flykka.runtime.errors import ActorInitializationError, serialized
from flykka.runtime.events import ActorFailed
from flykka.runtime.life import Life
from flykka.runtime.signals import Failed, Recreate, Resume
from flykka.runtime.supervision import Directive, RestartHistory

if TYPE_CHECKING:
    from flykka.messages.failure import SerializedThrowable
    from flykka.runtime.cell import Cell

P = ParamSpec("P")

logger = logging.getLogger("flykka.runtime")


class FaultHandling:
    """Both sides of supervision for one cell: as the child that failed, and as the parent that decides."""

    __slots__ = ("_cell", "_escalated_from", "error", "restarts")

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._escalated_from: Cell | None = None
        self.error: BaseException | None = None
        """What the cell failed with; stays put until the parent has decided."""
        self.restarts = RestartHistory()

    # The child that fails

    def fail(self, error: BaseException) -> SerializedThrowable:
        """Stand still and let the parent decide; the failure as text."""
        cell = self._cell
        failure = self.report(error)
        if cell.end_reason is None and cell.life not in (Life.STOPPING, Life.ENDING):
            cell.life = Life.FAILED
            self.error = error
            assert cell.parent is not None, "the root runs no user code"
            cell.parent.ref.signal(Failed(child=cell.ref, failure=failure))
        return failure

    def report(self, error: BaseException) -> SerializedThrowable:
        """Make a failure known, in the log and on the event stream."""
        cell = self._cell
        failure = serialized(error)
        logger.error("%s failed: %s: %s\n%s", cell.ref, failure.type_name, failure.message, failure.stack_trace)
        cell.system.event_stream.publish(ActorFailed(ref=cell.ref, failure=failure))
        return failure

    def guarded(self, hook: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Run a hook on the way out. If it fails this is made known, and the way goes on."""
        try:
            hook(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - reported, not swallowed.
            self.report(error)

    def resume(self) -> None:
        """Go on with the instance as it is."""
        if self._cell.life is not Life.FAILED:
            return
        self.error = None
        child, self._escalated_from = self._escalated_from, None
        self._cell.life = Life.RUNNING
        if child is not None:
            # The failure was this child's in the first place, and it still waits.
            child.ref.signal(Resume())

    def recreate(self) -> SerializedThrowable | None:
        """Let the old instance go; the new one is made when the children that it stopped have ended."""
        cell = self._cell
        if cell.life not in (Life.FAILED, Life.RUNNING):
            return None
        cell.life = Life.RESTARTING
        cell.timers.cancel_all()
        cell.sessions.clear()
        if cell.instance is not None:
            self.guarded(cell.instance.pre_restart, self.error)
        cell.resources.close_all()
        return self.finish_recreate()

    def finish_recreate(self) -> SerializedThrowable | None:
        """Make the new instance, where one is due and no child still has to end."""
        cell = self._cell
        if cell.life is not Life.RESTARTING or cell.children.any_dying:
            return None
        error, self.error = self.error, None
        escalated, self._escalated_from = self._escalated_from, None
        was_started, cell.instance = cell.instance is not None, None
        try:
            instance = cell.make_instance()
            if was_started:
                instance.post_restart(error)
            else:
                instance.pre_start()
        except BaseException as failure:  # noqa: BLE001 - any failure is the parent's to judge.
            return self.fail_to_start(failure)
        cell.life = Life.RUNNING
        if escalated is not None:
            # A child whose failure went further up and that `pre_restart` has kept: it still waits.
            escalated.ref.signal(Recreate())
        return None

    def fail_to_start(self, cause: BaseException) -> SerializedThrowable:
        """The instance could not be made, or not be started."""
        error = ActorInitializationError(f"{self._cell.ref} could not start: {cause!r}")
        error.__cause__ = cause
        return self.fail(error)

    # The parent that decides

    def on_failed(self, signal: Failed) -> None:
        """A child stands still and waits."""
        cell = self._cell
        child = cell.children.find(signal.child)
        if child is None or child.faults.error is None or cell.instance is None:
            return
        strategy = cell.instance.supervisor_strategy
        error = child.faults.error
        try:
            directive = strategy.decider(error)
        except BaseException as undecided:  # noqa: BLE001 - a decider that raises leaves it to the next one up.
            self._escalate(child, undecided)
            return
        match directive:
            case Directive.RESUME:
                child.ref.signal(Resume())
            case Directive.RESTART:
                for each in strategy.affected(child, cell.children.all()):
                    if strategy.may_restart(each.faults.restarts, cell.now()):
                        each.ref.signal(Recreate())
                    else:
                        cell.children.stop(each)
            case Directive.STOP:
                for each in strategy.affected(child, cell.children.all()):
                    cell.children.stop(each)
            case Directive.ESCALATE:
                self._escalate(child, error)
            case _:
                assert_never(directive)

    def _escalate(self, child: Cell, error: BaseException) -> None:
        self._escalated_from = child
        self.fail(error)
