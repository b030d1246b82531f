"""Golden traces: recorded runs that every version replays, and the programs that recorded them."""

from __future__ import annotations

from pathlib import Path

import tests.actors.peer  # noqa: F401 - The traces name its actors, and no module is imported because a trace names it.

HISTORIES = Path(__file__).parent
