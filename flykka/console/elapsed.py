"""Tells of steps that take seconds, such as the start of Spark, with the seconds gone by."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console as RichConsole
from rich.live import Live
from rich.text import Text

from flykka.console.live import REFRESHES_PER_SECOND, can_be_live

Clock = Callable[[], float]
"""Seconds since whenever."""


@contextmanager
def elapsed(output: RichConsole, begun: str, done: str, clock: Clock = time.monotonic) -> Iterator[None]:
    """Say that something has `begun`, and when the `with` is left without an error, that it is `done` and how soon.

    On a terminal the seconds are counted meanwhile, in a line that goes at the end; anywhere else there are two lines.
    """
    since = clock()
    if can_be_live(output):
        with Live(
            console=output,
            get_renderable=lambda: Text(f"{begun}  {clock() - since:.0f} s"),
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
        ) as live:
            live.refresh()
            yield
    else:
        _print(output, begun)
        yield
    _print(output, f"{done} after {clock() - since:.1f} s")


def spark_start(output: RichConsole, master: str) -> AbstractContextManager[None]:
    """Spark's own start, on whatever command's output."""
    return elapsed(output, f"starting Spark at {master}", "Spark is up")


def _print(output: RichConsole, text: str) -> None:
    output.print(text, soft_wrap=True, highlight=False, markup=False)
