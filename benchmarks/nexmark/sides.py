"""The interface of the engines in the benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class NotRunnableError(Exception):
    """An engine cannot run a query; the message is the reason."""


class Side(Protocol):
    """Runs queries repeatedly, from a folder of events to a folder of rows."""

    def run(self, query: str, source: Path, place: Path) -> None:
        """Run a query into `place`/output, with other files in `place`.

        Raises:
            NotRunnableError: the engine cannot run the query.
        """

    def close(self) -> None: ...
