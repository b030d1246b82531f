"""Distinguishes user files from files of Python, libraries, Spark and flykka. Works without Spark."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parents[2])


_STANDARD_LIBRARY = sysconfig.get_paths()["stdlib"]


_LIBRARIES = ("/site-packages/", "/dist-packages/", "/pyspark/", "/py4j/")


def is_users(file: str) -> bool:
    if file.startswith("<frozen"):
        return False
    if any(part in file for part in _LIBRARIES) or file.startswith((_STANDARD_LIBRARY, sys.base_prefix + "/lib/")):
        return False
    return not any(file.startswith(f"{_PACKAGE}/{room}/") for room in ("flykka", "spark_bridge", "actors", "runtime"))
