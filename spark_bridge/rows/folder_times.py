"""The times at which local folders were changed last: whether there may be something new, without listing them.

A folder's time changes with every name in it. It is noted before the folder is listed, so that no change is missed. The
clock of a file system ticks some times a second only: of two changes within a tick the second is not to be seen. So a
folder that had just been changed when its time was noted counts as changed once more, a tick later.

So early a look would find files of which only a part has been written. A file that is written where it lies, not
renamed to there, is left alone until nothing has been written to it for a moment.
"""

from __future__ import annotations

import os
import time

_TICK_NS = 20_000_000
_PAUSE_NS = 50_000_000


class FolderTimes:
    """The times of some folders, by path. Noted by one thread, asked by another."""

    def __init__(self) -> None:
        self._noted: dict[str, int | None] = {}
        self._doubtful_until_ns: int | None = None

    def clear(self) -> None:
        """Forget all folders."""
        self._noted, self._doubtful_until_ns = {}, None

    def note(self, folder: str) -> None:
        """Note the time of a folder, which may be none yet."""
        now_ns, changed_ns = time.time_ns(), _changed_ns(folder)
        self._noted[folder] = changed_ns
        if changed_ns is not None and abs(now_ns - changed_ns) < _TICK_NS:
            self._doubtful_until_ns = now_ns + _TICK_NS

    def may_grow(self, file: str) -> bool:
        """True if a file was written to just now, where it lies: the folder changes once more, a moment later.

        Raises:
            OSError: there is no such file.
        """
        now_ns, status = time.time_ns(), os.stat(file)
        # A name that was given, or a time that was set, comes after the last writing.
        is_written_here = status.st_mtime_ns == status.st_ctime_ns
        if not is_written_here or abs(now_ns - status.st_mtime_ns) >= _PAUSE_NS:
            return False
        self._doubtful_until_ns = now_ns + _PAUSE_NS
        return True

    def changed(self) -> bool:
        """True if a folder may have been changed since its time was noted."""
        if self._doubtful_until_ns is not None and time.time_ns() > self._doubtful_until_ns:
            return True
        return any(_changed_ns(folder) != noted for folder, noted in list(self._noted.items()))


def _changed_ns(folder: str) -> int | None:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return None
