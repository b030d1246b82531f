"""Changes of the schema of keyed state between two versions of a program.

Values are matched by their names. A new value begins with null for existing keys, a removed value is dropped, and a
value with a wider type is widened. Nothing else may change: the types of keys determine the key group of a row, and
windows determine which rows belong together. Types are Spark DDL texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from flykka.messages.state.handles import OperatorStateSchema, StateSchema

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_WIDER: Mapping[str, tuple[str, ...]] = {
    **{name: _INTEGERS[place + 1 :] for place, name in enumerate(_INTEGERS)},
    "float": ("double",),
}
_DIGITS: Mapping[str, int] = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""The number of decimal digits that hold all values of the integer type."""

_TO_DOUBLE = ("tinyint", "smallint", "int")
"""The integers that a double represents exactly."""

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_NESTED = re.compile(r"(array|map|struct)<(.*)>", re.DOTALL)
_COLUMN = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)*)`|(?P<plain>[^\s`]+))\s+(?P<type>.*\S)\s*", re.DOTALL)
_FIELD = re.compile(r"(`(?:[^`]|``)*`|[^`:]*):(.*)", re.DOTALL)


def columns_ddl(columns: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{ddl_name(name)} {kind}" for name, kind in columns)


def ddl_name(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else quoted(name)


def quoted(name: str) -> str:
    """Return a name in backticks, which Spark's DDL needs for names that are not identifiers."""
    return "`" + name.replace("`", "``") + "`"


def columns_of(ddl: str) -> dict[str, str]:
    columns: dict[str, str] = {}
    for column in _parts(ddl):
        match = _COLUMN.fullmatch(column)
        assert match is not None, f"{column!r} is not a column"
        columns[match["plain"] or match["quoted"].replace("``", "`")] = match["type"]
    return columns


def operator_state_text(operator_state: Iterable[OperatorStateSchema]) -> str:
    return "operator state: " + ", ".join(f"{each.name} {each.element} {each.mode}" for each in operator_state)


def is_evolvable(was: StateSchema, now: StateSchema) -> bool:
    """Return True if both schemas name their values, so that the values can be matched by name.

    Partial aggregates of an older version have no names, so their schema must be unchanged. Rows are not partial
    aggregates.
    """
    return bool(was.merged_by) == bool(now.merged_by)


def schema_mismatches(was: StateSchema, now: StateSchema) -> list[str]:
    """List the changes that prevent reading stored state with the current schema, a phrase with types for each."""
    mismatches = [
        f"{what}: was `{old}`, is `{new}`"
        for what, old, new in (("keys", *_comparable_keys(was, now)), ("windows", was.windows, now.windows))
        if old != new
    ]
    before = columns_of(was.columns)
    mismatches += [
        f"{name}: its type was `{before[name]}` and is `{kind}`, which is not wider"
        for name, kind in columns_of(now.columns).items()
        if name in before and not is_same_or_wider(before[name], kind)
    ]
    return [*mismatches, *_operator_state_mismatches(was, now)]


def _operator_state_mismatches(was: StateSchema, now: StateSchema) -> Iterator[str]:
    before = {each.name: each for each in was.operator_state}
    for each in now.operator_state:
        old = before.get(each.name)
        if old is not None and old.mode is not each.mode:
            yield f"operator state {each.name}: was {old.mode}, is {each.mode}"
        elif old is not None and not is_same_or_wider(old.element, each.element):
            yield (
                f"operator state {each.name}: its type was `{old.element}` and is `{each.element}`, which is not wider"
            )


def changes(was: StateSchema, now: StateSchema) -> list[str]:
    """List the values that are new, widened and dropped, if the state is compatible, a phrase for each."""
    before, after = columns_of(was.columns), columns_of(now.columns)
    new = [f"{name} is new: null for existing keys" for name in after if name not in before]
    widened = [
        f"{name} is widened from {before[name]} to {kind}"
        for name, kind in after.items()
        if before.get(name, kind) != kind
    ]
    return [*new, *widened, *(f"{name} is dropped" for name in before if name not in after)]


def has_changed(was: StateSchema, now: StateSchema) -> bool:
    return is_evolvable(was, now) and [*columns_of(was.columns).items()] != [*columns_of(now.columns).items()]


def is_same_or_wider(was: str, now: str) -> bool:
    was, now = was.strip(), now.strip()
    if was == now or now in _WIDER.get(was, ()) or (was in _TO_DOUBLE and now == "double"):
        return True
    new = _DECIMAL.fullmatch(now)
    if new and was in _DIGITS:
        return int(new[1]) - int(new[2]) >= _DIGITS[was]
    if new and (old := _DECIMAL.fullmatch(was)):
        (digits, scale), (new_digits, new_scale) = map(int, old.groups()), map(int, new.groups())
        return new_scale >= scale and new_digits - new_scale >= digits - scale
    old, new = _NESTED.fullmatch(was), _NESTED.fullmatch(now)
    if old is None or new is None or old[1] != new[1]:
        return False
    before, after = list(_parts(old[2])), list(_parts(new[2]))
    if len(before) != len(after):
        return False
    match old[1]:
        case "array":
            return is_same_or_wider(before[0], after[0])
        case "map":
            return before[0].strip() == after[0].strip() and is_same_or_wider(before[1], after[1])
        case _:
            return all(map(_is_wider_field, before, after))


def _comparable_keys(was: StateSchema, now: StateSchema) -> tuple[str, str]:
    """Return the keys to compare: by name if rows are stored, which have keys as columns."""
    types = tuple(", ".join(columns_of(each.keys).values()) for each in (was, now))
    if types[0] == types[1] and (was.merged_by or not was.windows):
        return "", ""
    return was.keys, now.keys


def _is_wider_field(was: str, now: str) -> bool:
    old, new = _FIELD.fullmatch(was.strip()), _FIELD.fullmatch(now.strip())
    return old is not None and new is not None and old[1] == new[1] and is_same_or_wider(old[2], new[2])


def _parts(text: str) -> Iterator[str]:
    depth, start, is_quoted = 0, 0, False
    for place, sign in enumerate(text):
        if sign == "`":
            is_quoted = not is_quoted
        elif is_quoted:
            continue
        elif sign in "<(":
            depth += 1
        elif sign in ">)":
            depth -= 1
        elif sign == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    if text[start:].strip():
        yield text[start:]
