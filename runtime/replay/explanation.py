"""Explains a divergence: its causes, its line of code, and the code that has changed since."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from flykka.messages.wire.message import Message
from flykka.runtime.replay.session.causes import causes_of
from flykka.runtime.replay.source import source_of
from flykka.runtime.trace.file.versions import module_hashes
from flykka.runtime.trace.text import unwrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.replay.divergence import Divergence
    from flykka.runtime.trace.file.reader import TraceReader
    from flykka.runtime.trace.records import TraceHeader

_CAUSES = 6
_MODULES = 5


def explain(divergence: Divergence, trace: TraceReader, cell: Cell) -> Divergence:
    """The divergence, with everything that helps to understand it."""
    said = unwrapped(divergence.turn.message)
    return replace(
        divergence,
        causes=tuple(cause.turn for cause in causes_of(trace, divergence.turn)[:_CAUSES]),
        source=source_of(cell, said if isinstance(said, Message) else None),
        notes=(*divergence.notes, *_order(divergence, trace.header), *_changes(trace.header)),
    )


def _order(divergence: Divergence, header: TraceHeader) -> Iterator[str]:
    """A note on a turn that does the same in another order."""
    here = os.environ.get("PYTHONHASHSEED", "random")
    is_another_order = divergence.expected is not None and not divergence.missing and not divergence.extra
    if is_another_order and (header.hash_seed != here or here == "random"):
        yield (
            f"the same effects in another order, that of a set? Recorded with PYTHONHASHSEED={header.hash_seed}, "
            f"this is {here}: sort what is gone through"
        )


def _changes(header: TraceHeader) -> Iterator[str]:
    """Notes on the differences between this process and the one that was recorded."""
    here = _package()
    if header.package != here:
        yield f"recorded with flykka {header.package}, this is {here}"
    # The script that ran is not what is `__main__` here.
    told = {name: recorded for name, recorded in header.modules.items() if name != "__main__"}
    changed = [name for name, recorded in told.items() if _has_changed(name, recorded)]
    # Of a package and a module in it that have changed, the module says more.
    named = [name for name in changed if not any(other.startswith(f"{name}.") for other in changed)]
    if named:
        more = f" and {len(named) - _MODULES} more" if len(named) > _MODULES else ""
        yield f"the code of {', '.join(named[:_MODULES])}{more} has changed since"


def _has_changed(name: str, recorded: str) -> bool:
    now = module_hashes(name).get(name) if name in sys.modules else None
    return now is not None and now != recorded


def _package() -> str:
    try:
        return version("flykka")
    except PackageNotFoundError:
        return "not installed"
