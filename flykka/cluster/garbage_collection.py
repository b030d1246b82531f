"""Python's garbage collector is patient while a cluster runs.

It looks at the young objects after every 700 new ones, which is sooner than a message that ten thousand actors tell one
another is read: so those live to be old, and many old ones make it look at everything there is. Of a checkpoint of ten
thousand tasks it then took more than half. What a cluster makes is freed without it, for messages know no cycles.
"""

from __future__ import annotations

import gc
import threading

YOUNG_OBJECTS = 200_000
"""So many new objects there may be before the collector looks at them."""

_lock = threading.Lock()
_clusters = 0
_found: tuple[int, int, int] | None = None
"""The thresholds that the first cluster has found, where it has raised them."""


def raise_gc_threshold() -> None:
    """A cluster begins. Who has switched the collector off, or made it as patient already, is left alone."""
    global _clusters, _found
    with _lock:
        _clusters += 1
        found = gc.get_threshold()
        if _clusters == 1 and 0 < found[0] < YOUNG_OBJECTS:
            _found = found
            gc.set_threshold(YOUNG_OBJECTS, *found[1:])


def restore_gc_threshold() -> None:
    """A cluster has ended; with the last one everything is as it was, unless somebody has changed it meanwhile."""
    global _clusters, _found
    with _lock:
        _clusters -= 1
        if _clusters == 0 and _found is not None:
            if gc.get_threshold() == (YOUNG_OBJECTS, *_found[1:]):
                gc.set_threshold(*_found)
            _found = None
