"""All declared classes, and strategies for instances of any of them, derived from the annotations."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import sys
import types
from enum import StrEnum
from functools import cache
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

import flykka
from flykka.messages.wire.message import Value
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import Declared, registered

_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    types.NoneType: st.none(),
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**64 - 1),
    float: st.floats(allow_nan=False),
    str: st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    bytes: st.binary(max_size=12),
    Ref: st.builds(Ref, st.sampled_from(["/user/job-manager", "/user/task-manager-1"]), st.integers(0, 9)),
}


@cache
def tagged() -> dict[str, Declared]:
    """Return every class that flykka declares by a tag, with all its modules imported, without the classes of tests."""
    for module in pkgutil.walk_packages(flykka.__path__, "flykka."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return {tag: each for tag, each in registered().items() if each.__module__.startswith("flykka.")}


@cache
def declared_messages() -> dict[str, type[Value]]:
    return {tag: cls for tag, cls in tagged().items() if isinstance(cls, type) and issubclass(cls, Value)}


def any_instance(cls: type[Value]) -> st.SearchStrategy[Value]:
    """Return a strategy for any instance of `cls`, or of its declared subclasses."""
    return st.deferred(lambda: _instances(cls))


def _instances(base: type[Value]) -> st.SearchStrategy[Value]:
    tags = [tag for tag, cls in declared_messages().items() if issubclass(cls, base)]
    return st.sampled_from(tags).flatmap(_exactly)


@cache
def _exactly(tag: str) -> st.SearchStrategy[Value]:
    """Return a strategy for instances of exactly this class. Cached, because each strategy would rebuild those of the
    classes to which it refers.
    """
    cls = declared_messages()[tag]
    annotations = get_type_hints(cls, vars(sys.modules[cls.__module__]))
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]  # every declared class is a dataclass
    return st.builds(cls, **{field.name: _of(annotations[field.name]) for field in fields})


def _of(annotation: Any) -> st.SearchStrategy[Any]:
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if isinstance(annotation, NewType):
        return _of(annotation.__supertype__)
    if get_origin(annotation) in (Union, types.UnionType):
        return st.one_of(*map(_of, get_args(annotation)))
    match get_args(annotation):
        case (item, extent) if extent is Ellipsis:
            return st.lists(_of(item), max_size=2).map(tuple)
        case (_, *_) as items:
            return st.tuples(*map(_of, items))
    if issubclass(annotation, StrEnum):
        return st.sampled_from(annotation)
    return any_instance(annotation)
