"""The line of the user's code that created an operator.

It is only used in errors: it is not part of a fingerprint and is not sent in messages.
"""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass

_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSite:
    """A line of a file. In a notebook, the file is the name that the kernel has given the cell."""

    file: str
    line: int

    @property
    def source(self) -> str:
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def call_site() -> CallSite:
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__")):
        frame = frame.f_back
    return CallSite(file=frame.f_code.co_filename, line=frame.f_lineno)


def _is_ours(module: str | None) -> bool:
    return module is not None and (module == _PACKAGE or module.startswith(f"{_PACKAGE}."))
