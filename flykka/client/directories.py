"""Directories that users name, for checkpoints and savepoints."""

from __future__ import annotations

import os
from os import PathLike


def absolute_directory(directory: str | PathLike[str]) -> str:
    """A path, or an fsspec address, as it is meant here: driver and executors need not have one working directory."""
    named = os.fspath(directory)
    return named if "://" in named else os.path.abspath(named)
