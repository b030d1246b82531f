"""Descriptors of keyed state, with Flink's names, which a function registers in `open`.

Types are DDL texts as Spark reads them: `"bigint"`, `"array<string>"`, `"struct<name: string, seen: timestamp>"`. The
value of a struct is a dict by field name.

Values are checked when the user's code writes them, and read in the form that they would have after a restore. Arrow
would reject some values only at the end of a batch, when the user's line is unknown. It would return others in another
form: an int in a column of doubles as a float, a tuple as a list.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from numbers import Integral, Real
from typing import Any

from flykka.spark_bridge.errors import StateDescriptorError, StateValueError
from flykka.spark_bridge.functions.aggregate_function import AnyAggregateFunction, ReduceFunction, reducer
from flykka.spark_bridge.functions.column_types import ColumnType, array_of, column_type, map_of
from flykka.spark_bridge.functions.equal_values import normalised_value
from flykka.spark_bridge.functions.error_texts import short_repr
from flykka.spark_bridge.functions.state_ttl import StateTtlConfig

Convert = Callable[[Any], Any]

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_FLOAT = struct.Struct("f")
_DIGITS = 38


@dataclass(frozen=True, slots=True)
class StoredForm:
    """The form in which values of a type are stored.

    An instance of the class `plain` is stored unchanged. Other values are converted by `stored`, which copies them and
    may raise `StateValueError`. Readers get the result of `copied`, because they might change the value and because
    Arrow returns maps as pairs. `copied` is None for types with immutable values.
    """

    plain: type | None
    stored: Convert
    copied: Convert | None


def stored_form(type_: ColumnType, state: str, *, is_key: bool = False) -> StoredForm:
    convert = _key_converter(type_) if is_key else _converter(type_)

    def stored(value: Any) -> Any:
        try:
            return convert(value)
        except (TypeError, ValueError, ArithmeticError, LookupError) as wrong:
            raise StateValueError(f"state {state!r} of type {type_} cannot hold {short_repr(value)}: {wrong}") from None

    return StoredForm(_PLAIN.get(type_.name), stored, _copier(type_))


def _converter(type_: ColumnType) -> Convert:
    match type_.name:
        case "tinyint" | "smallint" | "int" | "bigint":
            return _int_of(_BITS[type_.name])
        case "decimal":
            return _decimal_of(*type_.sizes)
        case "array":
            return _array_of(type_.parts[0])
        case "map":
            return _map_of(*type_.parts)
        case "struct":
            return _struct_of(type_)
    return _SIMPLE[type_.name]


def _key_converter(type_: ColumnType) -> Convert:
    convert = _converter(type_)
    return (lambda value: normalised_value(convert(value))) if type_.name in ("float", "double") else convert


def _int_of(bits: int) -> Convert:
    limit = 1 << (bits - 1)

    def convert(value: Any) -> int:
        if value.__class__ is not int and (isinstance(value, bool) or not isinstance(value, Integral)):
            raise TypeError(f"an int is needed, not {_a(value)}")
        number = int(value)
        if not -limit <= number < limit:
            raise ValueError(f"it has more than {bits} bits")
        return number

    return convert


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"a float is needed, not {_a(value)}")
    return float(value)


def _float(value: Any) -> float:
    (rounded,) = _FLOAT.unpack(_FLOAT.pack(_double(value)))
    return float(rounded)


def _decimal_of(precision: int, scale: int) -> Convert:
    def convert(value: Any) -> Decimal:
        if not isinstance(value, (Decimal, int)) or isinstance(value, bool):
            raise TypeError(f"a Decimal is needed, not {_a(value)}")
        if not Decimal(value).is_finite():
            raise ValueError("it is not a number")
        with localcontext(prec=2 * _DIGITS):
            rounded = Decimal(value).quantize(Decimal(1).scaleb(-scale))
        if rounded != value:
            raise ValueError(f"it has more than {scale} digits after the point")
        if len(rounded.as_tuple().digits) > precision:
            raise ValueError(f"it has more than {precision} digits")
        return rounded

    return convert


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"a bool is needed, not {_a(value)}")
    return value


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a str is needed, not {_a(value)}")
    return str(value)


def _binary(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"bytes are needed, not {_a(value)}")
    return bytes(value)


def _date(value: Any) -> date:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise TypeError(f"a date is needed, not {_a(value)}")
    return value


def _timestamp(value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise TypeError(f"a datetime is needed, not {_a(value)}")
    if value.tzinfo is None:
        raise ValueError("it has no time zone: give it one, or make the type timestamp_ntz")
    return value.astimezone(UTC).replace(fold=0)


def _timestamp_ntz(value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise TypeError(f"a datetime is needed, not {_a(value)}")
    if value.tzinfo is not None:
        raise ValueError("it has a time zone: make the type timestamp")
    return value.replace(fold=0)


def _array_of(type_: ColumnType) -> Convert:
    plain, element = _part(type_)

    def convert(value: Any) -> list[Any]:
        if value.__class__ is not list and (not isinstance(value, Sequence) or isinstance(value, _TEXTS)):
            raise TypeError(f"a list is needed, not {_a(value)}")
        return [each if each.__class__ is plain else element(each) for each in value]

    return convert


def _map_of(key_type: ColumnType, value_type: ColumnType) -> Convert:
    key, (plain, value) = _key_converter(key_type), _part(value_type)

    def convert(mapping: Any) -> dict[Any, Any]:
        if not isinstance(mapping, (dict, list, Mapping)):
            raise TypeError(f"a dict is needed, not {_a(mapping)}")
        return {key(each): item if item.__class__ is plain else value(item) for each, item in _pairs(mapping)}

    return convert


def _struct_of(type_: ColumnType) -> Convert:
    fields = [(name, *_part(part)) for name, part in zip(type_.fields, type_.parts, strict=True)]
    names = frozenset(type_.fields)

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, (dict, Mapping)):
            raise TypeError(f"a dict of its fields is needed, not {_a(value)}")
        if value.keys() != names:
            raise ValueError(f"its fields are {', '.join(type_.fields)}, not {', '.join(map(str, value)) or 'none'}")
        return {name: item if (item := value[name]).__class__ is plain else part(item) for name, plain, part in fields}

    return convert


def _part(type_: ColumnType) -> tuple[type | None, Convert]:
    """Return the class of values that are stored unchanged, and the conversion of other values, which may be None."""
    convert = _converter(type_)
    return _PLAIN.get(type_.name), lambda value: None if value is None else convert(value)


def _a(value: Any) -> str:
    if value is None:
        return "None"
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _copier(type_: ColumnType) -> Convert | None:
    below = [_copier(part) for part in type_.parts]
    match type_.name:
        case "array":
            (element,) = below
            return list if element is None else lambda values: [_copied(element, each) for each in values]
        case "map":
            value = below[1]
            return (
                dict if value is None else lambda mapping: {key: _copied(value, each) for key, each in _pairs(mapping)}
            )
        case "struct":
            if not any(below):
                return dict
            by_name = dict(zip(type_.fields, below, strict=True))
            return lambda row: {name: _copied(by_name[name], each) for name, each in row.items()}
    return None


def _pairs(of_map: Any) -> Iterable[tuple[Any, Any]]:
    return of_map.items() if isinstance(of_map, Mapping) else of_map


def _copied(copy: Convert | None, value: Any) -> Any:
    return value if copy is None or value is None else copy(value)


# Only 64-bit ints are stored without a check, because counting to their limit takes longer than any job.
_PLAIN: Mapping[str, type] = {
    "bigint": int,
    "boolean": bool,
    "binary": bytes,
    "date": date,
    "double": float,
    "string": str,
}
_TEXTS = (str, bytes, bytearray)
_SIMPLE: Mapping[str, Convert] = {
    "boolean": _boolean,
    "binary": _binary,
    "date": _date,
    "double": _double,
    "float": _float,
    "string": _string,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
}


_BIGINT = ColumnType("bigint")


class StateDescriptor:
    """The name and type of a state. Raises `StateDescriptorError` for an invalid name or type."""

    def __init__(self, name: str, column: ColumnType) -> None:
        self.name = name
        self.ttl: StateTtlConfig | None = None
        self._column = column

    def enable_time_to_live(self, ttl: StateTtlConfig) -> None:
        """Let values expire. Raises `StateDescriptorError` if `ttl` is not a `StateTtlConfig`."""
        if not isinstance(ttl, StateTtlConfig):
            raise StateDescriptorError(
                f"the time-to-live of state {self.name!r} must be a StateTtlConfig, not {ttl!r}; create it with"
                " StateTtlConfig.new_builder('1 day').build()"
            )
        self.ttl = ttl

    @property
    def column(self) -> ColumnType:
        """The type of the state's column."""
        return self._column

    @property
    def column_type(self) -> str:
        """The type of the state's column, as DDL."""
        return str(self._column)

    @property
    def touched_type(self) -> str | None:
        """The type of the column of access times, as DDL; None without time-to-live."""
        return None if self.ttl is None else str(self._touched())

    def is_same_as(self, other: StateDescriptor) -> bool:
        """Return True if both have the same class, type and time-to-live. Functions are not compared."""
        return type(self) is type(other) and (self.column_type, self.ttl) == (other.column_type, other.ttl)

    def __repr__(self) -> str:
        lives = "" if self.ttl is None else f", time-to-live {self.ttl.ttl_ms} ms"
        return f"{type(self).__name__}({self.name!r}, {self.column_type!r}{self._more()}{lives})"

    def _more(self) -> str:
        return ""

    def _touched(self) -> ColumnType:
        return _BIGINT

    def _form_of(self, type_: ColumnType) -> StoredForm:
        return stored_form(type_, self.name)


class ValueStateDescriptor(StateDescriptor):
    """A single value for each key. Reading a missing value returns `default`."""

    def __init__(self, name: str, type: str, default: Any = None) -> None:  # noqa: A002 - the usual name
        super().__init__(checked_name(name), column_type(type, name))
        self.form = self._form_of(self._column)
        self.default = None if default is None else self.form.stored(default)

    def is_same_as(self, other: StateDescriptor) -> bool:
        return super().is_same_as(other) and isinstance(other, ValueStateDescriptor) and self.default == other.default

    def _more(self) -> str:
        return "" if self.default is None else f", default {self.default!r}"


class ListStateDescriptor(StateDescriptor):
    """A list of elements for each key."""

    def __init__(self, name: str, element_type: str) -> None:
        element = column_type(element_type, checked_name(name))
        super().__init__(name, array_of(element))
        self.element_form = self._form_of(element)

    def _touched(self) -> ColumnType:
        return array_of(_BIGINT)


class MapStateDescriptor(StateDescriptor):
    """A map for each key."""

    def __init__(self, name: str, key_type: str, value_type: str) -> None:
        key, value = column_type(key_type, checked_name(name)), column_type(value_type, name)
        if key.parts or key.name == "float":
            raise StateDescriptorError(
                f"the keys of state {name!r} are of type {key}, whose values cannot be looked up: use a simple type,"
                " and double for numbers"
            )
        super().__init__(name, map_of(key, value))
        self._key = key
        self.key_form = stored_form(key, name, is_key=True)
        self.value_schema = self._form_of(value)
        self.normalised_key: Callable[[Any], Any] | None = normalised_value if key.name == "double" else None

    def _touched(self) -> ColumnType:
        return map_of(self._key, _BIGINT)


class ReducingStateDescriptor(StateDescriptor):
    """A single value for each key, which a function of two values combines with added values."""

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        type: str,  # noqa: A002 - the usual name
    ) -> None:
        super().__init__(checked_name(name), column_type(type, name))
        self.form = self._form_of(self._column)
        try:
            self.reduce = reducer(reduce_function)
        except TypeError as wrong:
            raise StateDescriptorError(f"state {name!r}: {wrong}") from None


class AggregatingStateDescriptor(StateDescriptor):
    """An accumulator for each key, to which values are added by an `AggregateFunction`."""

    def __init__(self, name: str, aggregate_function: AnyAggregateFunction, accumulator_type: str) -> None:
        super().__init__(checked_name(name), column_type(accumulator_type, name))
        self.form = self._form_of(self._column)
        if not all(callable(getattr(aggregate_function, each, None)) for each in _AGGREGATES):
            raise StateDescriptorError(
                f"state {name!r}: an AggregateFunction is needed, with {', '.join(_AGGREGATES)},"
                f" not {aggregate_function!r}"
            )
        self.aggregate_function = aggregate_function

    @property
    def merge(self) -> Callable[[Any, Any], Any]:
        """Return the function that merges two accumulators."""
        return self.aggregate_function.merge


_AGGREGATES = ("create_accumulator", "add", "get_result")


def checked_name(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise StateDescriptorError(f"the name of a state must be a non-empty string, not {name!r}")
    if name.startswith("__"):
        raise StateDescriptorError(
            f"the name of state {name!r} must not begin with two underscores, which are reserved"
        )
    return name
