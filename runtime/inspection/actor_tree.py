"""Picture of a snapshot: a tree for the terminal, for the notebook, and as plain text."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from flykka.runtime.durations import format_ms

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

    from flykka.runtime.inspection.snapshot import ActorSnapshot, SystemSnapshot

_STYLES = {"running": "green", "awaiting": "green", "failed": "red"}
"""Colours of the states; a state between two of these is yellow."""

_HTML = '<pre style="line-height: 1.35; white-space: pre; overflow-x: auto">{code}</pre>'


class ActorTree:
    """Result of `system.tree()`. It shows itself in a terminal, in a notebook, and through `rich.print`."""

    def __init__(self, snapshot: SystemSnapshot, max_children: int) -> None:
        self.snapshot = snapshot
        self._max_children = max_children

    def __rich__(self) -> Tree:
        from rich.text import Text  # Here and below: rich is imported on first use.
        from rich.tree import Tree

        actors = list(self.snapshot)
        title = Text(self.snapshot.name, style="bold")
        rate = sum(actor.turns_per_second for actor in actors)
        title.append(f"  {_count(len(actors), 'actor')} · {rate:,.1f} turns/s", style="not bold dim")
        tree = Tree(title)
        waiting = [(tree, self.snapshot.actors)]
        while waiting:
            branch, children = waiting.pop()
            for child in children[: self._max_children]:
                waiting.append((branch.add(self._line(child)), child.children))
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
"""Lines are not wrapped: where there is no terminal, its width is unknown."""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
