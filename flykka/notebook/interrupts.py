"""The stop button of a notebook, pressed while a cell waits for a job: it ends the wait, and the job goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from flykka.notebook.shell import in_kernel, interactive_shell

WAKING_SECONDS = 0.25


@contextmanager
def interruptible(job_name: str) -> Iterator[None]:
    """Around a wait: who interrupts it in IPython is told what has become of the job."""
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
        await asyncio.sleep(WAKING_SECONDS)
