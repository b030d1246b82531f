"""Log lines like those of the README's job: generated from a seed, in small JSON files."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

SCHEMA = "time timestamp, service string, status int"
SEED = 1

_FIRST = datetime(2026, 1, 1, tzinfo=UTC)
_BETWEEN = timedelta(milliseconds=200)
_DISORDER_SECONDS = 20
"""The maximum disorder in seconds: less than the minute that the job waits, so that no line is late."""
_SERVICES = 20
_STATUSES = (200, 200, 200, 404, 500, 503)


def write(folder: Path, rows: int, files: int, seed: int = SEED) -> None:
    """Write the lines into a new folder, and the marker for the end of the input."""
    folder.mkdir(parents=True)
    chance = Random(seed)
    for number in range(files):
        path = folder / f"log-{number:05}.json"
        first, behind = (rows * n // files for n in (number, number + 1))
        path.write_text("".join(_line(chance, row) for row in range(first, behind)))
        # Structured Streaming reads files by modification time, in milliseconds.
        os.utime(path, (number, number))
    (folder / "_SUCCESS").touch()


def _line(chance: Random, row: int) -> str:
    time = _FIRST + row * _BETWEEN - timedelta(seconds=chance.random() * _DISORDER_SECONDS)
    service = f"service-{chance.randrange(_SERVICES)}"
    return json.dumps({"time": time.isoformat(), "service": service, "status": chance.choice(_STATUSES)}) + "\n"
