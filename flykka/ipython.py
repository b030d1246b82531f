"""IPython, where this process runs in it. It is looked up and never imported: there it is loaded already."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Bundle = dict[str, str]
"""A thing to show, by MIME type."""

_WAKING_SECONDS = 0.25


def interactive_shell() -> Any | None:
    """IPython's shell, in a notebook or a terminal; None in a plain program."""
    ipython = sys.modules.get("IPython")
    # A module that is being loaded has not all of its names yet.
    get_ipython = getattr(ipython, "get_ipython", None)
    return None if get_ipython is None else get_ipython()


def running_cell() -> int | None:
    """The number of the run of a cell that goes on now, as in `In [7]`; None in a plain program."""
    shell = interactive_shell()
    return None if shell is None else int(shell.execution_count)


def in_kernel() -> bool:
    """True if what is shown goes to a frontend, which can put a new picture in the place of an old one."""
    return getattr(interactive_shell(), "kernel", None) is not None


def publish(bundle: Bundle, display_id: str, *, update: bool) -> None:
    """Show something under this id in the output of the running cell, or, as an update, wherever it is shown."""
    shell = interactive_shell()
    if shell is not None:
        shell.display_pub.publish(data=bundle, metadata={}, transient={"display_id": display_id}, update=update)


@contextmanager
def interruptible(job_name: str) -> Iterator[None]:
    """Around a wait: an interrupt of it in IPython tells what has become of the job."""
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError) as interrupted:
        if interactive_shell() is not None:
            interrupted.add_note(f"job {job_name!r} goes on; run its cell again to replace it, or cancel it")
        raise


@contextmanager
def waking_loop() -> Iterator[None]:
    """Around an await: wakes the loop now and then, where it is a notebook's.

    ipykernel notes an interrupt as a callback of the loop and does not wake the loop for it
    (https://github.com/ipython/ipykernel/issues/881).
    """
    if not in_kernel():
        yield
        return
    waking = asyncio.create_task(_wake_for_ever())
    try:
        yield
    finally:
        waking.cancel()


async def _wake_for_ever() -> None:
    while True:
        await asyncio.sleep(_WAKING_SECONDS)
