"""Moves of machines from phase to phase: each enum of phases has a literal table of the legal ones, beside it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from flykka.actors.errors import IllegalTransitionError

P = TypeVar("P", bound=Enum)


def next_phase(moves: Mapping[P, tuple[P, ...]], phase: P, target: P) -> P:
    """Return the target, to which the machine moves, or where it stays.

    Raises:
        IllegalTransitionError: the table does not have the move.
    """
    if target is not phase and target not in moves[phase]:
        raise IllegalTransitionError(f"{type(phase).__name__} is {phase.name} and cannot become {target.name}")
    return target
