"""The fsyncs of a block of code, in order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch


@dataclass(slots=True)
class Syncs:
    """The paths of files and folders in the order of their syncs."""

    paths: list[str] = field(default_factory=list)


@contextmanager
def watched_syncs() -> Iterator[Syncs]:
    """Record every fsync of this process; the fsyncs still take place."""
    syncs, fsync = Syncs(), os.fsync

    def record_sync(descriptor: int) -> None:
        fsync(descriptor)
        syncs.paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    with patch("os.fsync", record_sync):
        yield syncs
