"""Argument types shared by the benchmarks, for argparse."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

T = TypeVar("T")


def positive_int(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ArgumentTypeError(f"{text} is not a positive number")
    return number


def positive_float(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise ArgumentTypeError(f"{text} is not a positive number")
    return number


def several(kind: Callable[[str], T]) -> Callable[[str], tuple[T, ...]]:
    """Return a parser of comma-separated values of `kind`."""

    @wraps(kind)  # argparse prints this name if a value cannot be parsed
    def read(text: str) -> tuple[T, ...]:
        return tuple(kind(part) for part in text.split(","))

    return read
