"""The failures of a replay are those of the record, and were told of when they happened: the kernel does not log them.

Only on the thread that replays: other systems of the process go on saying what they have to say.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_logger = logging.getLogger("flykka.runtime")


class _Replaying(threading.local):
    depth = 0


_replaying = _Replaying()


def _is_heard(_record: logging.LogRecord) -> bool:
    return _replaying.depth == 0


_logger.addFilter(_is_heard)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the kernel's log silent on this thread."""
    _replaying.depth += 1
    try:
        yield
    finally:
        _replaying.depth -= 1
