"""How an actor is made, as a trace tells it: names and plain values in the place of the live objects of its Props.

What the actor is given by its Props is written structurally: plain values and containers as they are, declared values
in their own encoding, refs, members of enums, dataclasses by their fields, functions and classes of a module by their
names. What has no such form, a session or a connection, is an `Opaque` with the name of its class; who makes the actor
again puts an object of its own there. Nothing is pickled, and nothing but a class or function that is named here is
ever called: a trace may come from anywhere.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import msgpack

from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.errors import CodecError, DecodeError
from flykka.messages.wire.message import Value
from flykka.messages.wire.ref import Ref

if TYPE_CHECKING:
    from flykka.runtime.props import Props

logger = logging.getLogger("flykka.runtime")

MAX_RECIPE_BYTES = 16 * 1024 * 1024
"""A larger one is not written: who replays has to say how the actor is made."""

# The extension types of msgpack, one for each form beyond its own; never renumbered.
_TUPLE, _SET, _VALUE, _REF, _ENUM, _INSTANCE, _NAMED, _OPAQUE = range(1, 9)

_MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Opaque:
    """An object that has no form in a trace: its class, or the function that it is, as "module:Qualname"."""

    type_name: str


@dataclass(frozen=True, slots=True)
class Named:
    """A class or function of a module, as "module:Qualname"."""

    name: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A member of an enum."""

    enum: str
    member: str


@dataclass(frozen=True, slots=True)
class Instance:
    """A dataclass: its class as "module:Qualname", and what its initialiser takes."""

    class_name: str
    fields: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The Props of an actor. In the arguments live objects are replaced by the classes above."""

    factory: str
    arguments: tuple[object, ...] = ()
    keywords: dict[str, object]
    dispatcher: str = "default"
    stash_capacity: int | None = None


def name_of(kind: object) -> str:
    """The "module:Qualname" of a class or function, or of the class of anything else."""
    if not hasattr(kind, "__qualname__"):
        kind = type(kind)
    return f"{kind.__module__}:{kind.__qualname__}"


def pack_recipe(props: Props) -> bytes | None:
    """The recipe as bytes, taken now: what the arguments hold may change later.

    None where it is too large, or where an argument cannot even be looked at: no spawning fails for that.
    """
    try:
        packed = _Packing().pack(
            [name_of(props.factory), props.args, props.kwargs, props.dispatcher, props.stash_capacity]
        )
    except Exception:
        # Of msgpack's limits, or of whatever code an argument runs when it is looked at.
        logger.debug("no recipe can be made of %r", props, exc_info=True)
        return None
    return packed if len(packed) <= MAX_RECIPE_BYTES else None


def unpack_recipe(packed: bytes) -> Recipe:
    """What `pack_recipe` made bytes of. Raises `ValueError` for anything else."""
    factory, arguments, keywords, dispatcher, stash_capacity = _unpack(packed)
    return Recipe(
        factory=factory,
        arguments=arguments,
        keywords=keywords,
        dispatcher=dispatcher,
        stash_capacity=stash_capacity,
    )


class _Packing:
    """Packs live objects, one level of what msgpack has no form for at a time."""

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth

    def pack(self, item: object) -> bytes:
        packer = msgpack.Packer(default=self._extension, strict_types=True, unicode_errors="surrogatepass")
        packed: bytes = packer.pack(item)
        return packed

    def _extension(self, item: object) -> msgpack.ExtType:
        code, content = self._form(item) if self._depth < _MAX_DEPTH else (_OPAQUE, name_of(type(item)))
        return msgpack.ExtType(code, _Packing(self._depth + 1).pack(content))

    def _form(self, item: object) -> tuple[int, object]:
        kind = type(item)
        match item:
            case tuple() if kind is tuple:
                return _TUPLE, list(item)
            case set() | frozenset() if kind in (set, frozenset):
                # A set has no order, and the same set is to make the same bytes.
                return _SET, sorted(item, key=_Packing(self._depth).pack)
            case Value():
                try:
                    return _VALUE, encode(item)
                except CodecError:
                    return _OPAQUE, name_of(kind)
            case Ref():
                return _REF, [item.path, item.incarnation]
            case Enum():
                return _ENUM, [name_of(kind), item.name]
            case type() | FunctionType() | BuiltinFunctionType():
                return (_NAMED if is_of_module(item) else _OPAQUE), name_of(item)
            case MethodType():
                return _OPAQUE, name_of(item)
            case _ if is_dataclass(kind):
                taken = {each.name: getattr(item, each.name, None) for each in fields(kind) if each.init}
                return _INSTANCE, [name_of(kind), taken]
            case _:
                return _OPAQUE, name_of(kind)


def is_of_module(item: Any) -> bool:
    """Whether `item` is found again under its name."""
    found: object = sys.modules.get(item.__module__)
    for part in item.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is item


def _unpack(packed: bytes) -> Any:
    return msgpack.unpackb(packed, ext_hook=_node, strict_map_key=False, unicode_errors="surrogatepass")


def _node(code: int, packed: bytes) -> object:
    if code not in _NODES:
        raise ValueError(f"a recipe with the extension {code}, which this version does not know")
    return _NODES[code](_unpack(packed))


def _value(packed: bytes) -> Value | Opaque:
    try:
        return decode(packed)
    except DecodeError as refusal:
        # A class that is not imported here. Only who makes the actor again needs to know.
        return Opaque(f"a value that cannot be read here: {refusal}")


_NODES: dict[int, Callable[[Any], object]] = {
    _TUPLE: tuple,
    _SET: frozenset,
    _VALUE: _value,
    _REF: lambda content: Ref(*content),
    _ENUM: lambda content: Choice(*content),
    _INSTANCE: lambda content: Instance(*content),
    _NAMED: Named,
    _OPAQUE: Opaque,
}
