"""Snapshots of the actors of a system, as values, and their rendering. They are read from the cells, and no actor is
asked.

So a snapshot succeeds even if every actor is stuck. Each value is correct, but the values are not from exactly the same
moment: exact snapshots would make every message slower.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING

from flykka.runtime.durations import format_ms

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.system import ActorSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorSnapshot:
    """A snapshot of an actor.

    Args:
        ref: its path and incarnation.
        actor: the class of its instance; before and between instances, its Props.
        state: the state of its cell: `running`, `failed`, `restarting`, ...
        handles: the class of the message or signal that it is handling.
        mailbox_size: the number of waiting messages. `stashed` is the number of stashed messages.
        turns: the number of messages and signals handled, counted after each run of turns.
        turns_per_second: the average since the previous snapshot, or since the system started.
        restarts: the number of times that its instance was replaced.
        last_failure: its last failure, if any, at `last_failure_ms`.
        dispatcher: the name in its Props.
        children: its children in the order of their spawning.
    """

    ref: Ref
    actor: str
    state: str
    handles: str | None
    mailbox_size: int
    stashed: int
    turns: int
    turns_per_second: float
    restarts: int
    last_failure: SerializedThrowable | None
    last_failure_ms: int | None
    dispatcher: str
    children: tuple[ActorSnapshot, ...] = field(repr=False)

    @property
    def name(self) -> str:
        return self.ref.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSnapshot:
    """A snapshot of a system. `actors` are the actors directly under `/user`, with their descendants."""

    name: str
    now_ms: int
    actors: tuple[ActorSnapshot, ...]

    def __iter__(self) -> Iterator[ActorSnapshot]:
        pending = list(reversed(self.actors))
        while pending:
            actor = pending.pop()
            yield actor
            pending.extend(reversed(actor.children))

    def find(self, path: str) -> ActorSnapshot | None:
        return next((actor for actor in self if actor.ref.path == path), None)


class Inspection:
    """Takes snapshots of a system, from any thread. Retains the turn counts of the last snapshot to compute rates."""

    def __init__(self, system: ActorSystem) -> None:
        self._system = system
        self._lock = threading.Lock()
        self._taken_ms = system.clock.now_ms()
        self._turns: dict[Ref, int] = {}

    def take_snapshot(self) -> SystemSnapshot:
        with self._lock:
            now_ms = self._system.clock.now_ms()
            seconds = (now_ms - self._taken_ms) / 1000
            children: dict[Cell | None, list[ActorSnapshot]] = {}
            turns: dict[Ref, int] = {}
            # The tree lists children after their parents, so in reverse order the children of each cell are already
            # known.
            for cell in reversed(self._system.cells.living()):
                below = children.pop(cell, [])
                below.reverse()
                turns[cell.ref] = cell.turns
                turns_taken = cell.turns - self._turns.get(cell.ref, 0)
                rate = turns_taken / seconds if seconds > 0 else 0.0
                children.setdefault(cell.parent, []).append(_snapshot(cell, rate, tuple(below)))
            self._taken_ms, self._turns = now_ms, turns
        root = children.get(None, [])
        users = [guardian for each in root for guardian in each.children]
        actors = tuple(actor for guardian in users for actor in guardian.children)
        return SystemSnapshot(name=self._system.name, now_ms=now_ms, actors=actors)


def _snapshot(cell: Cell, rate: float, children: tuple[ActorSnapshot, ...]) -> ActorSnapshot:
    instance, stash, failed = cell.instance, cell.stash, cell.faults.last_failure
    return ActorSnapshot(
        ref=cell.ref,
        actor=repr(cell.props) if instance is None else type(instance).__name__,
        state=cell.state.name.lower(),
        handles=cell.handles,
        mailbox_size=len(cell.mailbox.messages),
        stashed=0 if stash is None else len(stash),
        turns=cell.turns,
        turns_per_second=rate,
        restarts=cell.faults.restarted,
        last_failure=None if failed is None else failed[1],
        last_failure_ms=None if failed is None else failed[0],
        dispatcher=cell.props.dispatcher,
        children=children,
    )


_STYLES = {"running": "green", "awaiting": "green", "failed": "red"}
"""Colours of the states; all other states are yellow."""

_HTML = '<pre style="line-height: 1.35; white-space: pre; overflow-x: auto">{code}</pre>'


class ActorTree:
    """The result of `system.tree()`. It renders itself in a terminal, in a notebook, and through `rich.print`."""

    def __init__(self, snapshot: SystemSnapshot, max_children: int) -> None:
        self.snapshot = snapshot
        self._max_children = max_children

    def __rich__(self) -> Tree:
        from rich.text import Text  # Here and below, rich is imported on first use.
        from rich.tree import Tree

        actors = list(self.snapshot)
        title = Text(self.snapshot.name, style="bold")
        rate = sum(actor.turns_per_second for actor in actors)
        title.append(f"  {_count(len(actors), 'actor')} · {rate:,.1f} turns/s", style="not bold dim")
        tree = Tree(title)
        pending = [(tree, self.snapshot.actors)]
        while pending:
            branch, children = pending.pop()
            for child in children[: self._max_children]:
                pending.append((branch.add(self._line(child)), child.children))
            more = len(children) - self._max_children
            if more > 0:
                branch.add(Text(f"… {more:,} more", style="dim"))
        return tree

    def __str__(self) -> str:
        from rich.console import Console

        page = StringIO()
        Console(file=page, width=_WIDE, color_system=None, legacy_windows=False).print(self, soft_wrap=True)
        return "\n".join(line.rstrip() for line in page.getvalue().splitlines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from rich.console import Console

        console = Console(file=StringIO(), width=_WIDE, record=True, legacy_windows=False, force_jupyter=False)
        console.print(self, soft_wrap=True)
        return console.export_html(inline_styles=True, code_format=_HTML)

    def _line(self, actor: ActorSnapshot) -> Text:
        from rich.text import Text

        line = Text(actor.name, style="bold")
        line.append(f"  {actor.actor}", style="not bold cyan")
        for fact, style in self._facts(actor):
            line.append(" · ", style="not bold dim")
            line.append(fact, style=f"not bold {style}")
        return line

    def _facts(self, actor: ActorSnapshot) -> list[tuple[str, str]]:
        facts = [(actor.state, _STYLES.get(actor.state, "yellow"))]
        if actor.handles is not None:
            facts.append((f"handles {actor.handles}", "default"))
        if actor.mailbox_size:
            facts.append((f"{actor.mailbox_size:,} waiting", "yellow"))
        if actor.stashed:
            facts.append((f"{actor.stashed:,} stashed", "yellow"))
        facts.append((f"{_count(actor.turns, 'turn')} ({actor.turns_per_second:,.1f}/s)", "dim"))
        if actor.dispatcher != "default":
            facts.append((actor.dispatcher, "dim"))
        if actor.restarts:
            facts.append((_count(actor.restarts, "restart"), "yellow"))
        if actor.last_failure is not None and actor.last_failure_ms is not None:
            ago = format_ms(max(0, self.snapshot.now_ms - actor.last_failure_ms))
            text = actor.last_failure.message.partition("\n")[0]
            facts.append((f"{actor.last_failure.type_name} {ago} ago: {text}", "red"))
        return facts


_WIDE = 10_000
"""A width at which no line is wrapped, because the terminal's width may be unknown."""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
