"""Open files and threads of a process, as Linux tells them."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")


def open_files(pid: int) -> int:
    """The number of its file descriptors, sockets and pipes among them."""
    return _entries(pid, "fd")


def threads(pid: int) -> int:
    """The number of its threads."""
    return _entries(pid, "task")


def _entries(pid: int, of: str) -> int:
    return sum(1 for _ in (_PROC / str(pid) / of).iterdir())
