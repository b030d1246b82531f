"""Access to IPython if this process runs in it. IPython is never imported here: if it is used, it is already loaded."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Bundle = dict[str, str]

_WAKING_SECONDS = 0.25


def interactive_shell() -> Any | None:
    """Return IPython's shell, or None in a plain program."""
    ipython = sys.modules.get("IPython")
    # A module that is still being loaded may lack this name.
    get_ipython = getattr(ipython, "get_ipython", None)
    return None if get_ipython is None else get_ipython()


def running_cell() -> int | None:
    """Return the number of the running cell execution, as in `In [7]`, or None in a plain program."""
    shell = interactive_shell()
    return None if shell is None else int(shell.execution_count)


def in_kernel() -> bool:
    """Return whether output goes to a frontend that can replace an earlier display."""
    return getattr(interactive_shell(), "kernel", None) is not None


def publish(bundle: Bundle, display_id: str, *, update: bool) -> None:
    """Display a bundle under this id in the output of the running cell. With `update`, replace it wherever it is
    displayed.
    """
    shell = interactive_shell()
    if shell is not None:
        shell.display_pub.publish(data=bundle, metadata={}, transient={"display_id": display_id}, update=update)


@contextmanager
def interruptible(job_name: str) -> Iterator[None]:
    """Add a note about the job if the enclosed wait is interrupted in IPython."""
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError) as interrupted:
        if interactive_shell() is not None:
            interrupted.add_note(f"job {job_name!r} keeps running; run its cell again to replace it, or cancel it")
        raise


@contextmanager
def waking_loop() -> Iterator[None]:
    """Wake the event loop regularly during the enclosed await, in a notebook.

    ipykernel schedules an interrupt as a callback of the loop without waking the loop
    (https://github.com/ipython/ipykernel/issues/881).
    """
    if not in_kernel():
        yield
        return
    waking = asyncio.create_task(_wake_forever())
    try:
        yield
    finally:
        waking.cancel()


async def _wake_forever() -> None:
    while True:
        await asyncio.sleep(_WAKING_SECONDS)
