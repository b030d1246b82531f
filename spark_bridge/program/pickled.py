"""Pickles functions of users for Spark's workers."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import getclosurevars
from itertools import chain
from types import FunctionType

from pyspark import cloudpickle

from flykka.spark_bridge.program.prototype import PrototypeError


def pickled_function(function: object) -> bytes:
    """Pickle a function for Spark's workers. Raises `PrototypeError`, which names the value that cannot be pickled."""
    try:
        return _pickled(function)
    except Exception as refused:  # noqa: BLE001 - whatever the user's objects raise
        raise PrototypeError(f"the function cannot be sent to Spark's workers: {_reason(function, refused)}") from None


def _pickled(value: object) -> bytes:
    pickled: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return pickled


def _reason(function: object, refused: Exception) -> str:
    """Describe the first value in the function that cannot be pickled; without one, return the error's text."""
    for holds, value in _held(function):
        try:
            _pickled(value)
        except Exception:  # noqa: BLE001 - as above
            return f"{holds} is a {type(value).__name__}, which exists only in the driver's process"
    return str(refused)


def _held(function: object) -> Iterator[tuple[str, object]]:
    for name, value in getattr(function, "__dict__", {}).items():
        yield f"its attribute {name!r}", value
    for called in (function, *vars(type(function)).values()):
        if isinstance(called, FunctionType):
            for name, value in _variables(called):
                yield f"the variable {name!r}, which it reads,", value


def _variables(function: FunctionType) -> Iterator[tuple[str, object]]:
    try:
        variables = getclosurevars(function)
    except ValueError:
        return  # A free variable has no value yet.
    for name, value in chain(variables.nonlocals.items(), variables.globals.items()):
        if name != "__class__":  # A method that calls super() has its class as a free variable.
            yield name, value
