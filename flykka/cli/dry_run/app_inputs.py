"""Finds the local files that an app reads while it defines its program: its modules, and the files that it opens.

Python's audit events report every opened file and every listed folder, so a YAML file with column names counts like a
module. Files of Python, flykka and installed packages are left out, because their versions identify them. Spark reads
files in the JVM, which has no audit events.
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
    """A file or folder that was read, with a digest of its content. The digest of a large file covers its size and
    mtime.
    """

    path: str
    digest: str


class AppInputs:
    """Records the files that any thread of this process reads in a `with` block. Blocks must not overlap."""

    def __init__(self, app: str, began_ns: int) -> None:
        self._began_ns = began_ns
        self._paths = {os.path.abspath(app)}

    def __enter__(self) -> Self:
        global _current, _is_hooked
        if not _is_hooked:
            # An audit hook cannot be removed.
            sys.addaudithook(_on_audit_event)
            _is_hooked = True
        _current = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _current
        _current = None
        self._paths.update(file for module in list(sys.modules.values()) if (file := _file_of(module)))

    def record(self, path: str) -> None:
        """Record a file before it is read. Never raises, because the code that reads the file would get the error."""
        self._paths.add(os.path.abspath(path))

    def read(self) -> tuple[AppInput, ...] | None:
        """Return the files that were read and still exist, by path, or None if any have changed since."""
        inputs = []
        for path in sorted(self._paths):
            if not _belongs_to_app(path) or not (digest := digest_of(path)):
                continue
            with suppress(FileNotFoundError):
                # The app may have written the file, before or after reading it.
                if os.stat(path).st_mtime_ns >= self._began_ns:
                    return None
            inputs.append(AppInput(path=path, digest=digest))
        return tuple(inputs)


def digest_of(path: str) -> str:
    """Return a digest of a file's content or a folder's names. It is empty for other paths, and if reading fails."""
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            return _digest("\0".join(sorted(os.listdir(path))).encode("utf-8", "surrogateescape"))
        if not stat.S_ISREG(status.st_mode):
            return ""
        if status.st_size > _LARGE_FILE_BYTES:
            return f"{status.st_size} bytes of {status.st_mtime_ns}"
        return _digest(Path(path).read_bytes())
    except OSError:
        return ""


def environment_digest(inputs: Iterable[AppInput]) -> str:
    """Return a digest of the environment variables whose names occur in the Python files among `inputs`."""
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


def _belongs_to_app(path: str) -> bool:
    return not path.startswith(_ELSEWHERE) and not any(part in f"{path}/" for part in _PACKAGES)


_current: AppInputs | None = None
_is_hooked = False


def _on_audit_event(event: str, arguments: tuple[Any, ...]) -> None:
    noting = _current
    if noting is None:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(path, str | bytes) and isinstance(flags, int) and not flags & _WRITES:
            noting.record(os.fsdecode(path))
    elif event in _LISTED:
        (path,) = arguments
        # Python lists the folders of its search path to find modules. Only modules that are loaded count as inputs.
        if isinstance(path, str | bytes) and (folder := os.fsdecode(path)) not in sys.path:
            noting.record(folder)
