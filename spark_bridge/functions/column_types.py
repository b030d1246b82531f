"""Types of state in Spark's notation, DDL texts, which are parsed without Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from flykka.actors.machines.state.schema_evolution import ddl_name
from flykka.spark_bridge.errors import StateDescriptorError

_ALIASES: Mapping[str, str] = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}
_SIMPLE = frozenset(
    ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp")
) | {"timestamp_ntz"}
_TOKEN = re.compile(r"\s*(?:(?P<word>[A-Za-z_]\w*|\d+)|`(?P<quoted>(?:[^`]|``)+)`|(?P<sign>[<>(),:]))")
_MAX_PRECISION = 38


@dataclass(frozen=True, slots=True)
class ColumnType:
    name: str
    parts: tuple[ColumnType, ...] = ()
    fields: tuple[str, ...] = ()
    sizes: tuple[int, ...] = field(default=())

    def __str__(self) -> str:
        if self.name == "struct":
            pairs = zip(self.fields, self.parts, strict=True)
            return f"struct<{','.join(f'{ddl_name(name)}:{part}' for name, part in pairs)}>"
        if self.parts:
            return f"{self.name}<{','.join(map(str, self.parts))}>"
        return f"{self.name}({','.join(map(str, self.sizes))})" if self.sizes else self.name


def column_type(text: str, state: str) -> ColumnType:
    """Parse the DDL text of a type, such as `"bigint"` or `"struct<name: string, seen: timestamp>"`. Raises
    `StateDescriptorError`, which names `state`, if Spark has no such type or state does not support it.
    """
    if not isinstance(text, str):
        raise StateDescriptorError(
            f"the type of state {state!r} is {text!r}: write it as in Spark's DDL, such as 'bigint' or 'array<string>'"
        )
    return _Reader(text, state).read()


def array_of(element: ColumnType) -> ColumnType:
    return ColumnType("array", (element,))


def map_of(key: ColumnType, value: ColumnType) -> ColumnType:
    return ColumnType("map", (key, value))


class _Reader:
    def __init__(self, text: str, state: str) -> None:
        self._text = text
        self._state = state
        self._at = 0

    def read(self) -> ColumnType:
        read = self._type()
        if self._text[self._at :].strip():
            raise self._wrong(f"nothing may follow {str(read)!r}")
        return read

    def _type(self) -> ColumnType:
        word = self._next("word", "a type").lower()
        name = _ALIASES.get(word, word)
        match name:
            case "array":
                return array_of(*self._below(1))
            case "map":
                key, value = self._below(2)
                if "map" in _names_in(key):
                    raise self._wrong("the keys of a map cannot hold a map")
                return map_of(key, value)
            case "struct":
                return self._struct()
            case "decimal":
                return ColumnType("decimal", sizes=self._sizes())
            case _ if name in _SIMPLE:
                return ColumnType(name)
        raise self._wrong(f"{word!r} is not a type that state can have")

    def _below(self, number: int) -> list[ColumnType]:
        self._sign("<")
        parts = [self._type()]
        for _ in range(number - 1):
            self._sign(",")
            parts.append(self._type())
        self._sign(">")
        return parts

    def _struct(self) -> ColumnType:
        self._sign("<")
        fields: dict[str, ColumnType] = {}
        while True:
            name = self._next("name", "the name of a field")
            if name.lower() in map(str.lower, fields):
                raise self._wrong(f"the field {name!r} occurs twice")
            self._has(":")
            fields[name] = self._type()
            if not self._has(","):
                break
        self._sign(">")
        return ColumnType("struct", tuple(fields.values()), tuple(fields))

    def _sizes(self) -> tuple[int, int]:
        precision, scale = 10, 0
        if self._has("("):
            precision = self._number()
            scale = self._number() if self._has(",") else 0
            self._sign(")")
        if not scale <= precision <= _MAX_PRECISION or precision == 0:
            raise self._wrong(f"a decimal has at most {_MAX_PRECISION} digits, including those after the point")
        return precision, scale

    def _number(self) -> int:
        word = self._next("word", "a number")
        if not word.isdigit():
            raise self._wrong(f"{word!r} is not a number")
        return int(word)

    def _sign(self, sign: str) -> None:
        if not self._has(sign):
            rest = self._text[self._at :].strip()
            raise self._wrong(f"{sign!r} is missing" + (f" before {rest!r}" if rest else " at the end"))

    def _has(self, sign: str) -> bool:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match["sign"] != sign:
            return False
        self._at = match.end()
        return True

    def _next(self, kind: str, what: str) -> str:
        match = _TOKEN.match(self._text, self._at)
        text: str | None = None
        if match is not None:
            text = match["word"] or (match["quoted"].replace("``", "`") if kind == "name" and match["quoted"] else None)
        if match is None or text is None:
            rest = self._text[self._at :].strip()
            raise self._wrong(f"{what} is missing" + (f" before {rest!r}" if rest else " at the end"))
        self._at = match.end()
        return text

    def _wrong(self, why: str) -> StateDescriptorError:
        return StateDescriptorError(f"the type {self._text!r} of state {self._state!r} cannot be read: {why}")


def _names_in(type_: ColumnType) -> set[str]:
    return {type_.name}.union(*map(_names_in, type_.parts))
