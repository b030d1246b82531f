"""The signals in the life of a cell: creation, stop after its children, and the ends of other actors."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from flykka.runtime import signals
from flykka.runtime.mailbox.envelope import FailedEnvelope

if TYPE_CHECKING:
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.mailbox.envelope import Envelope


class CellState(Enum):
    """The state of a cell. Only a RUNNING cell handles messages; every cell handles signals until it has ENDED."""

    STARTING = auto()
    RUNNING = auto()
    AWAITING = auto()
    """The cell waits for the coroutine that handles a message."""
    FAILED = auto()
    """The cell waits for the parent's directive."""
    RESTARTING = auto()
    """The cell waits for children to end, and for the backoff to pass, before the new instance is created."""
    STOPPING = auto()
    """The cell waits for children to end before `post_stop`."""
    ENDING = auto()
    """`post_stop` has run. The cell is released after this turn is recorded."""
    ENDED = auto()


def on_signal(cell: Cell, envelope: Envelope) -> SerializedThrowable | None:
    match envelope.message:
        case signals.Create():
            return _create(cell)
        case signals.Stop():
            _stop(cell)
        case signals.Failed() as failed:
            cell.faults.on_failed(failed, envelope.error if isinstance(envelope, FailedEnvelope) else None)
        case signals.Resume():
            return cell.faults.resume()
        case signals.Recreate(delay_ms=delay_ms):
            return cell.faults.recreate(delay_ms)
        case signals.BackoffEnded():
            return cell.faults.on_backoff_ended()
        case signals.Watch(watcher=watcher):
            cell.death_watch.on_watch(watcher)
        case signals.Unwatch(watcher=watcher):
            cell.death_watch.on_unwatch(watcher)
        case signals.DeathWatchNotification(ref=ref):
            return _on_death(cell, ref, envelope.cause)
        case other:
            raise TypeError(f"{cell.ref}: {other} is no kernel signal")
    return None


def _create(cell: Cell) -> SerializedThrowable | None:
    if cell.state is not CellState.STARTING:
        return None
    try:
        cell.make_instance().pre_start()
    except BaseException as error:  # noqa: BLE001 - any failure is the parent's to judge.
        return cell.faults.fail_to_start(error)
    cell.state = CellState.RUNNING
    return None


def _stop(cell: Cell) -> None:
    if cell.state in (CellState.STOPPING, CellState.ENDING):
        return
    with cell.system.cells.lock:
        # From here on no thread adds a child, so none is missed below.
        cell.state = CellState.STOPPING
    for child in cell.children.all():
        cell.children.stop(child)
    _end_if_childless(cell)


def _on_death(cell: Cell, ref: Ref, cause: int | None) -> SerializedThrowable | None:
    with cell.system.cells.lock:
        # Another thread may spawn the next actor with this name at the same time. That actor must not be removed.
        child = cell.children.find(ref)
        if child is not None:
            cell.children.remove(child)
    if cell.state is CellState.STOPPING:
        _end_if_childless(cell)
        return None
    cell.death_watch.on_notification(ref, cause)
    return cell.faults.finish_recreate()


def _end_if_childless(cell: Cell) -> None:
    if len(cell.children):
        return
    if cell.instance is not None and not cell.faults.pre_restart_ran:
        cell.faults.run_hook(cell.instance.post_stop)
    if cell.system.cells.mark_stopped(cell):
        cell.state = CellState.ENDING
