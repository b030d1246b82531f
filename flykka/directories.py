"""Directories that users name, for checkpoints and savepoints."""

from __future__ import annotations

import os

from flykka.actors.checkpoint_storage import SAVEPOINT


def absolute_directory(directory: str) -> str:
    """A path, or an fsspec address, as it is meant here: driver and executors need not have one working directory."""
    return directory if "://" in directory else os.path.abspath(directory)


def is_savepoint(path: str) -> bool:
    """Whether this is the folder of a savepoint, by its name: that of a checkpoint is one of its job's."""
    return path.rstrip("/").rsplit("/", 1)[-1].startswith(SAVEPOINT)
