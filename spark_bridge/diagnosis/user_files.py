"""The files of the user, and not of Python, a library, Spark or flykka, and their lines. Known without Spark."""

from __future__ import annotations

import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parents[2])
_STANDARD_LIBRARY = sysconfig.get_paths()["stdlib"]
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/pyspark/", "/py4j/")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLine:
    """Line of a file, formatted as Python does in a traceback."""

    file: str
    line: int
    function: str
    source: str

    def __str__(self) -> str:
        return f'  File "{self.file}", line {self.line}, in {self.function}' + (
            f"\n    {self.source}" if self.source else ""
        )


def is_users(file: str) -> bool:
    """Tell whether a file is the user's: no library, nothing of Python, of Spark or of ours."""
    if file.startswith("<frozen"):
        return False
    if any(part in file for part in _LIBRARIES) or file.startswith((_STANDARD_LIBRARY, sys.base_prefix + "/lib/")):
        return False
    return not any(file.startswith(f"{_PACKAGE}/{room}/") for room in ("flykka", "spark_bridge", "actors", "runtime"))
