"""A folder that is unavailable for a while, as after a disk or network failure, so that accesses fail."""

from __future__ import annotations

from pathlib import Path


class Outage:
    """An outage from its creation to `end`. A file replaces the folder, so that it cannot be created again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._away = folder.with_name(f".{folder.name}-away")
        folder.rename(self._away)
        folder.touch()

    def end(self) -> None:
        self._folder.unlink()
        self._away.rename(self._folder)
