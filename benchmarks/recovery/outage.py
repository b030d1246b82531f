"""A folder that is away for a while, as when its disk or its network is: what is asked of it fails meanwhile."""

from __future__ import annotations

from pathlib import Path


class Outage:
    """From its making to its `end`. In the place of the folder stands a file, so that nobody can make it again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._away = folder.with_name(f".{folder.name}-away")
        folder.rename(self._away)
        folder.touch()

    def end(self) -> None:
        """All is there again, as it was."""
        self._folder.unlink()
        self._away.rename(self._folder)
