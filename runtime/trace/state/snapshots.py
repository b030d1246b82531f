"""Snapshots of an actor between two of its turns: its instance, and the kernel's state of it.

A ring of turns starts somewhere within a run, so it starts with snapshots: one for each actor with turns in it, taken
before the actor's first turn. A replay creates the cell, restores the snapshot, and continues from there.

This module accesses private parts of cells, so that cells need not know about snapshots.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flykka.messages.wire.ref import Ref
from flykka.messages.wire.unpacking import unpack
from flykka.runtime.cell.async_cell import AsyncCell
from flykka.runtime.cell.lifecycle import CellState
from flykka.runtime.cell.parts import Behaviours, SeededRandom, Stash
from flykka.runtime.cell.receive_timeout import ReceiveTimeoutTask
from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.time.timers import Repeats, Timer
from flykka.runtime.trace.records import recorded_ref
from flykka.runtime.trace.state.graph_writer import GraphWriter, NoFormError, pack_props

if TYPE_CHECKING:
    from flykka.runtime.cell.cell import Cell

IDLE = "it took no turn in the ring"
"""The reason why a snapshot lacks the state of an actor that needs none."""

_RESTORABLE = frozenset({CellState.STARTING, CellState.RUNNING, CellState.STOPPING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """An actor before its first turn in a ring.

    `state` is the graph of its Props and of the argument of `restore`. If it is None, `reason` explains why. `props`
    are the Props alone, as written by `pack_props`.
    """

    ref: Ref
    parent: Ref | None
    actor: str
    props: bytes | None
    state: bytes | None
    reason: str | None


def read_snapshots(packed: bytes) -> list[Snapshot]:
    """Return the snapshots of one frame. Raises `ValueError` or `TypeError` for anything else."""
    snapshots = []
    for path, incarnation, parent, actor, props, state, reason in unpack(packed):
        texts, graphs = (actor, "" if reason is None else reason), (props or b"", state or b"")
        if not all(type(each) is str for each in texts) or not all(type(each) is bytes for each in graphs):
            raise TypeError(f"the snapshot of {path!r} has parts of unexpected types")
        snapshots.append(
            Snapshot(
                ref=recorded_ref(path, incarnation),
                parent=None if parent is None else recorded_ref(*parent),
                actor=actor,
                props=props,
                state=state,
                reason=reason,
            )
        )
    return snapshots


def snapshot_of(cell: Cell) -> tuple[bytes | None, bytes | None, str | None]:
    """Return the Props, the state and, if there is no state, the reason. Called when a turn of the cell begins."""
    props = pack_props(cell.props)
    if cell.state not in _RESTORABLE:
        return props, None, f"it was {cell.state.name.lower()} when the ring began"
    if isinstance(cell, AsyncCell) and cell.is_suspended():
        return props, None, "it was in the middle of a coroutine when the ring began"
    try:
        return props, GraphWriter(cell).pack(cell.props, _state(cell)), None
    except NoFormError as no_form:
        return props, None, str(no_form)
    except Exception as error:  # noqa: BLE001 - of code that its objects run when they are looked at: not the turn's.
        return props, None, f"its attributes cannot be read ({type(error).__name__}: {error})"


def _state(cell: Cell) -> dict[str, object]:
    instance, stash, timeout, behaviours = cell.instance, cell.stash, cell.receive_timeout, cell.behaviours
    faults, chance = cell.faults, cell._seeded_random
    watch, timers, sessions = cell._death_watch, cell._timers, cell._sessions
    return {
        "life": cell.state.name,
        "instance": instance,
        "behaviours": None if behaviours is None else list(behaviours._stack),
        "timers": [] if timers is None else [_timer(timer) for timer in timers._active.values()],
        "stash": [] if stash is None else [_stashed(entry) for entry in stash._entries],
        "watching": None if watch is None else [watch._watching, watch._queued, watch._watchers],
        "sessions": None if sessions is None else sorted(sessions._accepted),
        "chance": None if chance is None else [chance._made_ids, chance.random.getstate()],
        "receive_timeout": None if timeout is None else [timeout.timeout_ms, timeout._heard_ms],
        "restarted": faults.restarted,
        "history": faults._history,
        "let_go": faults.pre_restart_ran,
        "children": [child.ref for child in cell.children.all()],
        "dying": [child.ref for child in cell.children._dying],
    }


def _timer(timer: Timer) -> tuple[object, ...]:
    due_ms = None if timer.alarm is None else timer.alarm.due_ms
    return timer.key, timer.message, timer.delay_ms, timer.repeats.name, timer.cause, due_ms


def _stashed(entry: object) -> tuple[object, ...]:
    if type(entry) not in (tuple, Envelope):
        raise NoFormError(f"it has stashed a {type(entry).__name__}")
    envelope = Envelope.wrap(entry)  # type: ignore[arg-type]
    if envelope.reply_to is not None:
        raise NoFormError("it has stashed an ask")
    return envelope.message, envelope.sender, envelope.cause


def restore(cell: Cell, state: dict[str, Any]) -> None:
    cell.state = CellState[state["life"]]
    instance = cell.instance = state["instance"]
    if instance is not None:
        cell.set_behaviour(instance.handle_message)
        if state["behaviours"] is not None:
            behaviours = cell.behaviours = Behaviours(cell, instance.handle_message)
            behaviours._stack[:] = state["behaviours"]
            cell.set_behaviour(behaviours.top)
    if state["receive_timeout"] is not None:
        timeout_ms, heard_ms = state["receive_timeout"]
        timeout = cell.receive_timeout = ReceiveTimeoutTask(cell, timeout_ms)
        cell.set_behaviour(instance.handle_message if cell.behaviours is None else cell.behaviours.top)
        timeout._heard_ms = heard_ms
    for key, message, delay_ms, repeats, cause, due_ms in state["timers"]:
        timer = cell.timers._active[key] = Timer(key, message, delay_ms, Repeats[repeats], cause)
        if due_ms is not None:
            cell.timers._arm(timer, due_ms)
    if state["stash"]:
        stash = cell.stash = Stash(cell)
        stash._entries = deque(tuple(entry) for entry in state["stash"])
    if state["watching"] is not None:
        watch = cell.death_watch
        watch._watching, watch._queued, watch._watchers = state["watching"]
    for session in state["sessions"] or ():
        cell.sessions.accept(session)
    if state["chance"] is not None:
        made_ids, random_state = state["chance"]
        chance = cell._seeded_random = SeededRandom.for_cell(cell)
        chance._made_ids = made_ids
        chance.random.setstate(random_state)
    cell.faults.restarted = state["restarted"]
    cell.faults._history = state["history"]
    cell.faults.pre_restart_ran = state["let_go"]
    children = {child.ref: child for child in cell.children.all()}
    # In the order of their spawning. Some of the children may not exist.
    places = {ref: place for place, ref in enumerate(state["children"])}
    by_name = cell.children._by_name
    for child in sorted(children.values(), key=lambda child: places.get(child.ref, -1)):
        by_name[child.name] = by_name.pop(child.name)
    cell.children._dying = {children[ref]: None for ref in state["dying"] if ref in children}
    cell._now = None
