"""The times at which local folders were changed last: whether there may be something new, without listing them.

A folder's time changes with every name in it. It is noted before the folder is listed, so that no change is missed. The
clock of a file system ticks some times a second only: of two changes within a tick the second is not to be seen. So a
folder that had just been changed when its time was noted counts as changed once more, a tick later.

So early a look would find files of which only a part has been written. A file that is written where it lies, not
renamed to there, is left alone until nothing has been written to it for a moment. What came behind such a file is left
alone with it, and so is what came while the folder was listed, which may not show what came before: rows of a file that
is found before an earlier one would make those of the other late. A file that was written and renamed within a tick
looks like one that is being written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

_TICK_NS = 20_000_000
_PAUSE_NS = 50_000_000


class FolderTimes:
    """The times of some folders, by path. Noted by one thread, asked by another."""

    def __init__(self) -> None:
        self._noted: dict[str, int | None] = {}
        self._doubtful_until_ns: int | None = None
        self._begun_ns = 0

    def clear(self) -> None:
        self._noted, self._doubtful_until_ns = {}, None
        self._begun_ns = time.time_ns()

    def note(self, folder: str) -> None:
        now_ns, changed_ns = time.time_ns(), _changed_ns(folder)
        self._noted[folder] = changed_ns
        if changed_ns is not None and abs(now_ns - changed_ns) < _TICK_NS:
            self._doubtful_until_ns = now_ns + _TICK_NS

    def settled(self, files: Iterable[str]) -> set[str]:
        """The files that may be read now; where others may not be, the folder changes once more, a moment later.

        They were found in the folders since these were noted.

        Raises:
            OSError: there is no such file.
        """
        before_ns, statuses, now_ns = time.time_ns(), {file: os.stat(file) for file in files}, time.time_ns()
        # A name that was given, or a time that was set, comes after the last writing.
        written_ns = (status.st_mtime_ns for status in statuses.values() if status.st_mtime_ns == status.st_ctime_ns)
        doubtful_ns = [each for each in written_ns if before_ns - _PAUSE_NS < each < now_ns + _PAUSE_NS]
        if doubtful_ns:
            self._doubtful_until_ns = now_ns + _PAUSE_NS
        if self._is_changed():
            doubtful_ns.append(self._begun_ns - _TICK_NS)
        earliest_ns = min(doubtful_ns, default=None)
        return {file for file, status in statuses.items() if earliest_ns is None or status.st_ctime_ns < earliest_ns}

    def changed(self) -> bool:
        """True if a folder may have been changed since its time was noted."""
        if self._doubtful_until_ns is not None and time.time_ns() > self._doubtful_until_ns:
            return True
        return self._is_changed()

    def _is_changed(self) -> bool:
        return any(_changed_ns(folder) != noted for folder, noted in list(self._noted.items()))


def _changed_ns(folder: str) -> int | None:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return None
