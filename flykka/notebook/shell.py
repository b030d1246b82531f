"""IPython, where this process runs in it. It is looked up and never imported: there it is loaded already."""

from __future__ import annotations

import sys
from typing import Any

Bundle = dict[str, str]
"""One thing to show, by MIME type."""


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
    """Whether what is shown goes to a frontend, which can put a new picture in the place of an old one."""
    return getattr(interactive_shell(), "kernel", None) is not None


def publish(bundle: Bundle, display_id: str, *, update: bool) -> None:
    """Show something under this id in the output of the running cell, or, as an update, wherever it is shown."""
    shell = interactive_shell()
    if shell is not None:
        shell.display_pub.publish(data=bundle, metadata={}, transient={"display_id": display_id}, update=update)
