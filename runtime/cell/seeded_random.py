"""Random numbers and ids that repeat: both derive from the seed of the system, the path and the incarnation."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

from flykka.messages.wire.ref import Ref

if TYPE_CHECKING:
    from flykka.runtime.cell.cell import Cell


class SeededRandom:
    """Random numbers and ids of an actor. A restart goes on with them; another incarnation has others."""

    __slots__ = ("_identity", "_made_ids", "random")

    def __init__(self, seed: int, ref: Ref) -> None:
        self._identity = f"{seed}:{ref}"
        self._made_ids = 0
        # Seeded with a text, Random hashes it itself, the same in every process.
        self.random = random.Random(self._identity)

    @classmethod
    def for_cell(cls, cell: Cell) -> SeededRandom:
        """Make that of a cell, on first use: a generator takes 2.5 kB."""
        return cls(cell.system.seed, cell.ref)

    def new_id(self, prefix: str) -> str:
        """Make an id: `<prefix>-<digest of seed, path and incarnation>-<count>`."""
        self._made_ids += 1
        digest = hashlib.blake2s(self._identity.encode(), digest_size=4).hexdigest()
        return f"{prefix}-{digest}-{self._made_ids}"
