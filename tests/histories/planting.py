"""Temporarily changes one line of a function in this process."""

from __future__ import annotations
import __future__

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import CodeType, FunctionType


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """Replaces `line` by `instead` in the function `where` ("module:Qualname", below `flykka.actors`)."""

    where: str
    line: str
    instead: str
    history: str

    def __str__(self) -> str:
        return f"{self.where.partition(':')[2]}: {self.instead}"


@contextmanager
def planted(mutation: Mutation) -> Iterator[None]:
    """Apply the change for the duration of the block, in every module that has imported the function."""
    function = _function(mutation.where)
    original = function.__code__
    function.__code__ = _mutated(function, mutation)
    try:
        yield
    finally:
        function.__code__ = original


def _function(where: str) -> FunctionType:
    module, _, qualified = where.partition(":")
    found: object = import_module(f"flykka.actors.{module}")
    for name in qualified.split("."):
        found = inspect.getattr_static(found, name)
    if isinstance(found, property):
        found = found.fget
    assert isinstance(found, FunctionType), f"{where} is {found!r}"
    return found


def _mutated(function: FunctionType, mutation: Mutation) -> CodeType:
    lines, first = inspect.getsourcelines(function)
    source = textwrap.dedent("".join(lines))
    assert source.count(mutation.line) == 1, f"{mutation.where} has another line by now: change {mutation.line!r}"
    # The function keeps its line numbers in the file, so that a divergence points to the correct line.
    shifted = "\n" * (first - 1) + source.replace(mutation.line, mutation.instead)
    compiled = compile(shifted, function.__code__.co_filename, "exec", __future__.annotations.compiler_flag, True)
    made: dict[str, object] = {}
    exec(compiled, dict(function.__globals__), made)
    [changed] = made.values()
    if isinstance(changed, property):
        changed = changed.fget
    assert isinstance(changed, FunctionType)
    return changed.__code__
