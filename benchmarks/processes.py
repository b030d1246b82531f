"""Open files and threads of a process, as reported by Linux."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")


def open_files(pid: int) -> int:
    """Return the number of a process's file descriptors, including sockets and pipes."""
    return _entries(pid, "fd")


def threads(pid: int) -> int:
    return _entries(pid, "task")


def _entries(pid: int, of: str) -> int:
    return sum(1 for _ in (_PROC / str(pid) / of).iterdir())
