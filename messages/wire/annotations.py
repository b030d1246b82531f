"""Compiles the annotations of fields to wire schemas, once per class, at its first use.

The type on the wire determines the member of a union, so a union of two members with the same wire type, such as two
enums, has no schema. A base class stands for all declared classes below it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from enum import StrEnum
from functools import cache, lru_cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

import msgpack

from flykka.messages.wire.errors import DeclarationError
from flykka.messages.wire.message import Value, is_a
from flykka.messages.wire.ref import Ref, Resolve
from flykka.messages.wire.schemas import (
    TAG_KEY,
    ClassSchema,
    FieldSchema,
    SchemaMismatch,
    UnionMember,
    WireSchema,
    shorten,
)
from flykka.messages.wire.tags import class_of, tag_of
from flykka.messages.wire.unpacking import unpack

REF_CODE = 1

_MAX_ADDRESS_BYTES = 64 * 1024
_ADDRESSES_KEPT = 4096
"""The number of cached addresses. The same few refs occur again and again."""

_SCALARS = (NoneType, bool, int, float, str, bytes)

_class_schemas: dict[type[Value], ClassSchema] = {}


def class_schema(cls: type[Value]) -> ClassSchema:
    """Return the schema of a declared class, compiled at its first use.

    Raises:
        SchemaMismatch: the class is not declared.
        DeclarationError: a field has an annotation without a wire schema.
    """
    schema = _class_schemas.get(cls)
    if schema is None:
        schema = _class_schemas[cls] = _compile(cls)
    return schema


def _compile(cls: type[Value]) -> ClassSchema:
    if not tag_of(cls):
        raise SchemaMismatch(f"{cls.__qualname__} is not declared with @value or @message")
    try:
        annotations = get_type_hints(cls)
    except NameError as name_error:
        raise DeclarationError(
            f"{cls.__qualname__}: {name_error} in the scope of the class declaration"
        ) from name_error
    fields = []
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # every declared class is a dataclass
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        try:
            schema = _schema(annotations[field.name])
        except DeclarationError as error:
            raise DeclarationError(f"{cls.__qualname__}.{field.name}: {error}") from None
        fields.append(FieldSchema(field.name, attrgetter(field.name), schema, required))
    return ClassSchema(cls, tuple(fields))


def value_schema(bases: tuple[type[Value], ...]) -> WireSchema:
    return WireSchema(_names(bases), (), (_values(bases),))


@cache
def _schema(annotation: Any) -> WireSchema:
    plain: set[type] = set()
    bases: list[type[Value]] = []
    alternatives: list[UnionMember] = []
    for member in _members(annotation):
        if member in _SCALARS:
            plain.add(member)
        elif isinstance(member, type) and issubclass(member, Value):
            bases.append(member)
        else:
            alternatives.append(_alternative(member))
    if bases:
        alternatives.append(_values(tuple(bases)))
    if float in plain and int not in plain:
        alternatives.append(_INT_AS_FLOAT)
    wire_types = [*plain, *(alternative.wire_type for alternative in alternatives)]
    if len(set(wire_types)) < len(wire_types):
        raise DeclarationError(
            f"the members of {_names(_members(annotation))} cannot be distinguished when they are encoded"
        )
    return WireSchema(_names(_members(annotation)), plain, alternatives)


def _members(annotation: Any) -> list[Any]:
    """Return the members of a union, or the annotation itself, with `NewType`s replaced by their supertypes."""
    if isinstance(annotation, NewType):
        return _members(annotation.__supertype__)
    if get_origin(annotation) in (Union, UnionType):
        return list(dict.fromkeys(member for part in get_args(annotation) for member in _members(part)))
    return [annotation]


def _alternative(member: Any) -> UnionMember:
    if get_origin(member) is tuple:
        return _tuple(get_args(member))
    if isinstance(member, type) and issubclass(member, StrEnum):
        return _enum(member)
    if isinstance(member, type) and issubclass(member, Ref):
        return _REF
    raise DeclarationError(f"{_names([member])} cannot be encoded")


def _values(bases: tuple[type[Value], ...]) -> UnionMember:
    def encode(value: Value) -> object:
        return class_schema(type(value)).to_wire(value)

    accepted: dict[object, ClassSchema] = {}

    def decode(wire: dict[str, object], resolve: Resolve) -> object:
        tag = wire.get(TAG_KEY)
        cls = class_of(tag) if isinstance(tag, str) else None
        if cls is None:
            raise SchemaMismatch(f"unknown tag {shorten(tag)!r}" if isinstance(tag, str) else "the message has no tag")
        schema = accepted.get(cls)
        if schema is None:
            if not (isinstance(cls, type) and is_a(cls, bases)):
                raise SchemaMismatch(f"expected {_names(bases)}, found {tag}")
            schema = accepted[cls] = class_schema(cls)
        return schema.from_wire(wire, resolve)

    return UnionMember(dict, lambda kind: is_a(kind, bases), encode, decode)


def _enum(enum: type[StrEnum]) -> UnionMember:
    members = {member.value: member for member in enum}

    def decode(wire: str, resolve: Resolve) -> object:
        member = members.get(wire)
        if member is None:
            raise SchemaMismatch(f"{shorten(wire)!r} is no {enum.__qualname__}")
        return member

    return UnionMember(str, lambda kind: is_a(kind, (enum,)), lambda member: member.value, decode)


def _tuple(args: tuple[Any, ...]) -> UnionMember:
    any_length = len(args) == 2 and args[1] is Ellipsis
    schemas = tuple(_schema(arg) for arg in (args[:1] if any_length else args))

    def schemas_of(items: tuple[object, ...]) -> tuple[WireSchema, ...]:
        if any_length:
            return schemas * len(items)
        if len(items) != len(schemas):
            raise SchemaMismatch(f"expected {len(schemas)} items, found {len(items)}")
        return schemas

    def encode(items: tuple[object, ...]) -> object:
        wire: list[object] = []
        pairs = zip(items, schemas_of(items), strict=True)
        try:
            for item, schema in pairs:
                wire.append(item if type(item) in schema.plain else schema.encode(item))
        except SchemaMismatch as mismatch:
            mismatch.within(f"[{len(wire)}]")
            raise
        return tuple(wire)

    def decode(wire: tuple[object, ...], resolve: Resolve) -> object:
        items: list[object] = []
        pairs = zip(wire, schemas_of(wire), strict=True)
        try:
            for item, schema in pairs:
                items.append(item if type(item) in schema.plain else schema.decode(item, resolve))
        except SchemaMismatch as mismatch:
            mismatch.within(f"[{len(items)}]")
            raise
        return tuple(items)

    return UnionMember(tuple, lambda kind: kind is tuple, encode, decode)


def _encode_ref(ref: Ref) -> object:
    try:
        return _packed_address(ref.path, ref.incarnation)
    except (TypeError, ValueError, OverflowError) as error:
        raise SchemaMismatch(f"not an address: {error}") from error


def _decode_ref(wire: msgpack.ExtType, resolve: Resolve) -> object:
    if len(wire.data) > _MAX_ADDRESS_BYTES:
        raise SchemaMismatch(f"the address of a ref has {len(wire.data):,} bytes, which is too long")
    if wire.code != REF_CODE:
        raise SchemaMismatch(f"unknown extension type {wire.code}")
    return resolve(*_address(wire.data))


@lru_cache(_ADDRESSES_KEPT, typed=True)
def _packed_address(path: str, incarnation: int) -> msgpack.ExtType:
    return msgpack.ExtType(REF_CODE, msgpack.packb((path, incarnation)))


@lru_cache(_ADDRESSES_KEPT)
def _address(data: bytes) -> tuple[str, int]:
    try:
        address = unpack(data, use_list=False)
    except ValueError:
        address = None
    match address:
        case (str(path), int(incarnation)) if type(incarnation) is int:
            return path, incarnation
        case _:
            raise SchemaMismatch("malformed ref")


_REF = UnionMember(msgpack.ExtType, lambda kind: issubclass(kind, Ref), _encode_ref, _decode_ref)


def _to_float(number: int) -> object:
    try:
        return float(number)
    except OverflowError as error:
        raise SchemaMismatch(f"expected float, got an int beyond its range: {error}") from error


def _refuse_int(wire: int, resolve: Resolve) -> object:
    raise SchemaMismatch("expected float, found int")


_INT_AS_FLOAT = UnionMember(int, lambda kind: kind is int, _to_float, _refuse_int)


def _names(members: Iterable[Any]) -> str:
    return " or ".join(map(_name, members))


def _name(annotation: Any) -> str:
    if annotation is NoneType:
        return "None"
    if annotation is Ellipsis:
        return "..."
    if get_args(annotation):
        return f"{_name(get_origin(annotation))}[{', '.join(map(_name, get_args(annotation)))}]"
    return str(getattr(annotation, "__qualname__", annotation))
