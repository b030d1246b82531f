"""Names as short as they may be: of actors, and of what bears an id."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

_LONG_ID = re.compile(r"[0-9a-f]{16,}")
_ID_DIGITS = 6


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """For each path the fewest of its last parts that no other path ends with; long ids are cut short, if they may."""
    known = list(paths)
    cut = {path: with_short_ids(path) for path in known}
    if len(set(cut.values())) < len(known):
        cut = {path: path for path in known}
    parts = {path: each.strip("/").split("/") for path, each in cut.items()}
    tails = Counter("/".join(each[-length:]) for each in parts.values() for length in range(1, len(each) + 1))
    return {path: _tail(each, tails) or path for path, each in parts.items()}


def with_short_ids(text: str) -> str:
    """The text with no more than the beginning of each long id."""
    return _LONG_ID.sub(lambda found: found[0][:_ID_DIGITS], text)


def _tail(parts: Sequence[str], tails: Counter[str]) -> str:
    # A bridge is the bridge of something: its own name alone would say nothing.
    candidates = ("/".join(parts[-length:]) for length in range(1, len(parts) + 1))
    return next((each for each in candidates if tails[each] == 1), "/".join(parts))
