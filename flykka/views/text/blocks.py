"""Numbers over time as a line of text: a block character for each, as high as the number."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

_BLOCKS = "▁▂▃▄▅▆▇█"


def blocks(values: Sequence[float | None]) -> str:
    """A character for each value, from 0 to the greatest; only 0 has the lowest one, and None leaves a gap."""
    greatest = max((value for value in values if value is not None), default=0) or 1
    return "".join(
        " " if value is None else _BLOCKS[ceil(max(0.0, value) / greatest * (len(_BLOCKS) - 1))] for value in values
    )
