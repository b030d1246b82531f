"""Changelogs: whether the rows of a stream stay, or take the place of earlier ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Changelog:
    """Append-only where `keys` is None: every row stays. Else upserts: of rows that agree in the keys the newest holds.

    Without keys (an empty tuple) the newest row of all holds.
    """

    keys: tuple[str, ...] | None = None

    def renamed(self, names: Mapping[str, str], columns: Collection[str]) -> Changelog:
        """The changelog of rows of which some columns have new names; append-only where a key is not among them.

        Such rows are all that was ever emitted, and nothing tells which of them still hold.
        """
        if self.keys is None:
            return self
        keys = tuple(names.get(key, key) for key in self.keys)
        return Changelog(keys=keys) if all(key in columns for key in keys) else APPEND_ONLY

    def __str__(self) -> str:
        if self.keys is None:
            return "append-only"
        return f"upserts by {', '.join(self.keys)}" if self.keys else "upserts of one row"


APPEND_ONLY = Changelog()
