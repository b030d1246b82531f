"""Directories that users name, for checkpoints and savepoints."""

from __future__ import annotations

import os


def absolute_directory(directory: str) -> str:
    """A path, or an fsspec address, as it is meant here: driver and executors need not have one working directory."""
    return directory if "://" in directory else os.path.abspath(directory)
