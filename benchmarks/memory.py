"""The memory of a process and its descendants, as reported by Linux."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")
_SECONDS_BETWEEN_LOOKS = 0.1


class PeakMemory:
    """Samples a process tree during the `with` block; `bytes` is the largest resident size of all samples.

    Without `/proc`, `bytes` is None.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"memory of {pid}", daemon=True)
        self.bytes: int | None = None

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        before: set[int] = set()
        while _PROC.exists():
            now = process_tree(self._pid)
            # A process that was just forked shares its parent's memory, so it counts from the second sample on.
            self.bytes = max(self.bytes or 0, resident_bytes(now & (before | {self._pid})))
            before = now
            if self._done.wait(_SECONDS_BETWEEN_LOOKS):
                return


def process_tree(root: int) -> set[int]:
    parents = {int(entry.name): _parent(entry) for entry in _PROC.iterdir() if entry.name.isdecimal()}
    tree = {root}
    # A parent may have a higher process id than its child, so this is repeated until nothing is added.
    while added := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= added
    return tree


def resident_bytes(processes: Iterable[int]) -> int:
    """Return the memory of processes in bytes; shared pages are counted for each process."""
    return sum(_resident(pid) for pid in processes)


def _parent(process: Path) -> int | None:
    try:
        # The name is in parentheses and may contain any characters; it is followed by the state and the parent.
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        # The process has ended between the two reads.
        return None


def _resident(pid: int) -> int:
    try:
        pages = int((_PROC / str(pid) / "statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
