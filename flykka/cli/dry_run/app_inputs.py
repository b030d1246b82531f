"""Files of this machine that an app reads while it declares its program: its modules, and the files that it opens.

Python tells of every file that is opened and every folder that is listed (its audit events), so a YAML file with the
names of columns counts as a module does. What comes with Python, with flykka and with installed packages is left out:
their versions stand for it. What Spark reads it reads in the JVM, and is not seen here.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import flykka
from flykka.messages.wire.message import Value, value

_LISTED = ("os.listdir", "os.scandir")
_WRITES = os.O_WRONLY | os.O_RDWR
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LARGE_FILE_BYTES = 16 << 20
_PACKAGES = ("/site-packages/", "/dist-packages/", "/__pycache__/")
_ELSEWHERE = ("/proc/", "/sys/", "/dev/", f"{Path(flykka.__file__).parent}/", f"{sysconfig.get_path('stdlib')}/")


@value("plan.app_input")
class AppInput(Value):
    """A file or a folder that was read, and a digest of what was in it; of a large file, of its size and time."""

    path: str
    digest: str


class AppInputs:
    """Notes what is read in this process from `__enter__` to `__exit__`, on whatever thread. One at a time."""

    def __init__(self, app: str, began_ns: int) -> None:
        self._began_ns = began_ns
        self._paths = {os.path.abspath(app)}

    def __enter__(self) -> Self:
        global _current, _is_hooked
        if not _is_hooked:
            # A hook cannot be taken away again.
            sys.addaudithook(_hear)
            _is_hooked = True
        _current = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _current
        _current = None
        self._paths.update(file for module in list(sys.modules.values()) if (file := _file_of(module)))

    def note(self, path: str) -> None:
        """Take in what is about to be read. Never raises: the error would be that of the reading code."""
        self._paths.add(os.path.abspath(path))

    def read(self) -> tuple[AppInput, ...] | None:
        """Return the files that were read and still exist, by path; None where some have changed since."""
        found = []
        for path in sorted(self._paths):
            if not _is_of_the_app(path) or not (digest := digest_of(path)):
                continue
            with suppress(FileNotFoundError):
                # It may have been read before it was written, or after that.
                if os.stat(path).st_mtime_ns >= self._began_ns:
                    return None
            found.append(AppInput(path=path, digest=digest))
        return tuple(found)


def digest_of(path: str) -> str:
    """A digest of what is in a file, or of the names in a folder; empty where it is neither, or cannot be read."""
    try:
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode):
            return _digest("\0".join(sorted(os.listdir(path))).encode("utf-8", "surrogateescape"))
        if not stat.S_ISREG(found.st_mode):
            return ""
        if found.st_size > _LARGE_FILE_BYTES:
            return f"{found.st_size} bytes of {found.st_mtime_ns}"
        return _digest(Path(path).read_bytes())
    except OSError:
        return ""


def environment_digest(inputs: Iterable[AppInput]) -> str:
    """A digest of the environment variables whose names stand in the Python files among `inputs`."""
    words: set[str] = set()
    for each in inputs:
        if each.path.endswith(".py"):
            words.update(_WORD.findall(Path(each.path).read_text(encoding="utf-8", errors="replace")))
    return _digest(repr(sorted((word, os.environ[word]) for word in words if word in os.environ)).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _file_of(module: object) -> str | None:
    file = getattr(module, "__file__", None)
    return os.path.abspath(file) if isinstance(file, str) else None


def _is_of_the_app(path: str) -> bool:
    return not path.startswith(_ELSEWHERE) and not any(part in f"{path}/" for part in _PACKAGES)


_current: AppInputs | None = None
_is_hooked = False


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    noting = _current
    if noting is None:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(path, str | bytes) and isinstance(flags, int) and not flags & _WRITES:
            noting.note(os.fsdecode(path))
    elif event in _LISTED:
        (path,) = arguments
        # What is listed to find modules holds much besides: the modules themselves count.
        if isinstance(path, str | bytes) and (folder := os.fsdecode(path)) not in sys.path:
            noting.note(folder)
