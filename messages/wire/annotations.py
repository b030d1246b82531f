"""From annotations to forms: what a field may be declared as. Compiled once per class, at its first use.

The kind of the thing on the wire tells which member of a union it is, so a union of two that look alike there, such as
two enums, has no form. A base class stands for everything declared below it.
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
from flykka.messages.wire.forms import TAG_KEY, Alternative, ClassForm, FieldForm, Form, Misfit, shorten
from flykka.messages.wire.message import Value, is_a
from flykka.messages.wire.ref import Ref, Resolve
from flykka.messages.wire.tags import class_of, tag_of
from flykka.messages.wire.unpacking import unpack

REF_CODE = 1
"""The msgpack extension type of a ref."""

_MAX_ADDRESS_BYTES = 64 * 1024
_ADDRESSES_KEPT = 4096
"""The same few actors are told of again and again."""

_SCALARS = (NoneType, bool, int, float, str, bytes)

_class_forms: dict[type[Value], ClassForm] = {}


def class_form(cls: type[Value]) -> ClassForm:
    """The form of a declared class, compiled at its first use.

    Raises:
        Misfit: the class is not declared.
        DeclarationError: a field is annotated with what the wire has no form for.
    """
    form = _class_forms.get(cls)
    if form is None:
        form = _class_forms[cls] = _compile(cls)
    return form


def _compile(cls: type[Value]) -> ClassForm:
    if not tag_of(cls):
        raise Misfit(f"{cls.__qualname__} is not a declared value")
    try:
        annotations = get_type_hints(cls)
    except NameError as unknown:
        raise DeclarationError(f"{cls.__qualname__}: {unknown} where the class was declared") from unknown
    fields = []
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # every declared class is a dataclass
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        try:
            form = _form(annotations[field.name])
        except DeclarationError as error:
            raise DeclarationError(f"{cls.__qualname__}.{field.name}: {error}") from None
        fields.append(FieldForm(field.name, attrgetter(field.name), form, required))
    return ClassForm(cls, tuple(fields))


def value_form(bases: tuple[type[Value], ...]) -> Form:
    """The form of any declared value that is one of `bases`."""
    return Form(_names(bases), (), (_values(bases),))


@cache
def _form(annotation: Any) -> Form:
    plain: set[type] = set()
    bases: list[type[Value]] = []
    alternatives: list[Alternative] = []
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
        raise DeclarationError(f"the members of {_names(_members(annotation))} cannot be told apart on the wire")
    return Form(_names(_members(annotation)), plain, alternatives)


def _members(annotation: Any) -> list[Any]:
    """The members of a union, or the one annotation, with `NewType`s taken for what they are at run time."""
    if isinstance(annotation, NewType):
        return _members(annotation.__supertype__)
    if get_origin(annotation) in (Union, UnionType):
        return list(dict.fromkeys(member for part in get_args(annotation) for member in _members(part)))
    return [annotation]


def _alternative(member: Any) -> Alternative:
    if get_origin(member) is tuple:
        return _tuple(get_args(member))
    if isinstance(member, type) and issubclass(member, StrEnum):
        return _enum(member)
    if isinstance(member, type) and issubclass(member, Ref):
        return _REF
    raise DeclarationError(f"{_names([member])} has no form on the wire")


def _values(bases: tuple[type[Value], ...]) -> Alternative:
    def encode(value: Value) -> object:
        return class_form(type(value)).to_wire(value)

    accepted: dict[object, ClassForm] = {}

    def decode(wire: dict[str, object], resolve: Resolve) -> object:
        tag = wire.get(TAG_KEY)
        cls = class_of(tag) if isinstance(tag, str) else None
        if cls is None:
            raise Misfit(f"unknown tag {shorten(tag)!r}" if isinstance(tag, str) else "it has no tag")
        form = accepted.get(cls)
        if form is None:
            if not (isinstance(cls, type) and is_a(cls, bases)):
                raise Misfit(f"expected {_names(bases)}, found {tag}")
            form = accepted[cls] = class_form(cls)
        return form.from_wire(wire, resolve)

    return Alternative(dict, lambda kind: is_a(kind, bases), encode, decode)


def _enum(enum: type[StrEnum]) -> Alternative:
    members = {member.value: member for member in enum}

    def decode(wire: str, resolve: Resolve) -> object:
        member = members.get(wire)
        if member is None:
            raise Misfit(f"{shorten(wire)!r} is no {enum.__qualname__}")
        return member

    return Alternative(str, lambda kind: is_a(kind, (enum,)), lambda member: member.value, decode)


def _tuple(args: tuple[Any, ...]) -> Alternative:
    """`tuple[X, ...]`, or one of fixed length."""
    any_length = len(args) == 2 and args[1] is Ellipsis
    forms = tuple(_form(arg) for arg in (args[:1] if any_length else args))

    def forms_of(items: tuple[object, ...]) -> tuple[Form, ...]:
        if any_length:
            return forms * len(items)
        if len(items) != len(forms):
            raise Misfit(f"expected {len(forms)} items, found {len(items)}")
        return forms

    def encode(items: tuple[object, ...]) -> object:
        wire: list[object] = []
        pairs = zip(items, forms_of(items), strict=True)
        try:
            for item, form in pairs:
                wire.append(item if type(item) in form.plain else form.encode(item))
        except Misfit as misfit:
            misfit.within(f"[{len(wire)}]")
            raise
        return tuple(wire)

    def decode(wire: tuple[object, ...], resolve: Resolve) -> object:
        items: list[object] = []
        pairs = zip(wire, forms_of(wire), strict=True)
        try:
            for item, form in pairs:
                items.append(item if type(item) in form.plain else form.decode(item, resolve))
        except Misfit as misfit:
            misfit.within(f"[{len(items)}]")
            raise
        return tuple(items)

    return Alternative(tuple, lambda kind: kind is tuple, encode, decode)


def _encode_ref(ref: Ref) -> object:
    try:
        return _packed_address(ref.path, ref.incarnation)
    except (TypeError, ValueError, OverflowError) as refusal:
        raise Misfit(f"not an address: {refusal}") from refusal


def _decode_ref(wire: msgpack.ExtType, resolve: Resolve) -> object:
    if len(wire.data) > _MAX_ADDRESS_BYTES:
        raise Misfit(f"a ref of {len(wire.data):,} bytes")
    if wire.code != REF_CODE:
        raise Misfit(f"unknown extension type {wire.code}")
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
            raise Misfit("malformed ref")


_REF = Alternative(msgpack.ExtType, lambda kind: issubclass(kind, Ref), _encode_ref, _decode_ref)


def _to_float(number: int) -> object:
    try:
        return float(number)
    except OverflowError as refusal:
        raise Misfit(f"expected float, got an int beyond its range: {refusal}") from refusal


def _refuse_int(wire: int, resolve: Resolve) -> object:
    raise Misfit("expected float, found int")


_INT_AS_FLOAT = Alternative(int, lambda kind: kind is int, _to_float, _refuse_int)


def _names(members: Iterable[Any]) -> str:
    return " or ".join(map(_name, members))


def _name(annotation: Any) -> str:
    """The annotation without the modules of its classes."""
    if annotation is NoneType:
        return "None"
    if annotation is Ellipsis:
        return "..."
    if get_args(annotation):
        return f"{_name(get_origin(annotation))}[{', '.join(map(_name, get_args(annotation)))}]"
    return str(getattr(annotation, "__qualname__", annotation))
