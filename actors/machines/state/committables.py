"""Committables of a subtask of a sink: prepared and not yet committed, by the checkpoint that commits them."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar


class Committable(Protocol):
    """Output that is published when checkpoint `checkpoint_id`, or a later one, is complete."""

    @property
    def checkpoint_id(self) -> int:
        """The checkpoint that it was prepared for."""


Piece = TypeVar("Piece", bound=Committable)


class Committables(Generic[Piece]):
    """Every snapshot holds all of `pending`: what an aborted checkpoint has prepared is committed with the next."""

    def __init__(self) -> None:
        self.pending: tuple[Piece, ...] = ()

    def due(self, checkpoint_id: int) -> tuple[Piece, ...]:
        """Return what a complete checkpoint commits: its own, and what those before it have left."""
        return tuple(piece for piece in self.pending if piece.checkpoint_id <= checkpoint_id)

    def on_committed(self, checkpoint_id: int) -> None:
        self.pending = tuple(piece for piece in self.pending if piece.checkpoint_id > checkpoint_id)
