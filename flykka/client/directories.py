"""Directories for checkpoints and savepoints, as users specify them."""

from __future__ import annotations

import os
from os import PathLike


def absolute_directory(directory: str | PathLike[str]) -> str:
    """Return an absolute path or an fsspec address. The working directories of driver and executors may differ."""
    address = os.fspath(directory)
    return address if "://" in address else os.path.abspath(address)
