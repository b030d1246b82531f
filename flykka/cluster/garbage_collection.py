"""Makes Python's garbage collector run less often while a cluster runs.

By default the collector examines young objects after every 700 new ones. With messages between ten thousand actors,
objects become old before a message is even read, and many old objects trigger full collections. For a checkpoint of ten
thousand tasks these took more than half of the time. A cluster's objects are freed without the collector, because
messages contain no cycles.
"""

from __future__ import annotations

import gc
import threading

YOUNG_OBJECTS = 200_000
"""The number of new objects before the collector examines them."""

_lock = threading.Lock()
_clusters = 0
_original: tuple[int, int, int] | None = None


def raise_gc_threshold() -> None:
    """Count a new cluster. The first one raises the threshold, unless the user has set it higher or disabled
    collections.
    """
    global _clusters, _original
    with _lock:
        _clusters += 1
        threshold = gc.get_threshold()
        if _clusters == 1 and 0 < threshold[0] < YOUNG_OBJECTS:
            _original = threshold
            gc.set_threshold(YOUNG_OBJECTS, *threshold[1:])


def restore_gc_threshold() -> None:
    """Count the end of a cluster. The last one restores the threshold, unless the user has changed it."""
    global _clusters, _original
    with _lock:
        _clusters -= 1
        if _clusters == 0 and _original is not None:
            if gc.get_threshold() == (YOUNG_OBJECTS, *_original[1:]):
                gc.set_threshold(*_original)
            _original = None
