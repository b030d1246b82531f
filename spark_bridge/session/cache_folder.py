"""The user's folder for files that flykka caches between runs. Commands use it without Spark."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER_VARIABLE = "FLYKKA_CACHE_DIR"
"""The environment variable for a folder that replaces the user's cache folder."""


def cache_folder() -> Path:
    """Return `$FLYKKA_CACHE_DIR`, else `flykka` below `$XDG_CACHE_HOME` or `~/.cache`. The folder need not exist."""
    if configured := os.environ.get(FOLDER_VARIABLE):
        return Path(configured)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "flykka")
