"""The engines: how each is asked to run a query, and says that it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class NotRunnableError(Exception):
    """An engine cannot run a query; the message is why."""


class Side(Protocol):
    """Runs queries from a folder of events to a folder of rows, again and again."""

    def run(self, query: str, source: Path, place: Path) -> None:
        """Run a query into `place`/output, in which what is kept beside it lies as well.

        Raises:
            NotRunnableError: it cannot.
        """

    def close(self) -> None:
        """End what was started."""
