"""Types of the arguments of several benchmarks, for argparse."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

T = TypeVar("T")


def positive_int(text: str) -> int:
    """Read a number from 1 on."""
    number = int(text)
    if number < 1:
        raise ArgumentTypeError(f"{text} is not a positive number")
    return number


def positive_float(text: str) -> float:
    """Read a number above 0."""
    number = float(text)
    if not number > 0:
        raise ArgumentTypeError(f"{text} is not a positive number")
    return number


def several(kind: Callable[[str], T]) -> Callable[[str], tuple[T, ...]]:
    """Read what `kind` reads, several times with commas between."""

    @wraps(kind)  # argparse names it where a part cannot be read.
    def read(text: str) -> tuple[T, ...]:
        return tuple(kind(part) for part in text.split(","))

    return read
