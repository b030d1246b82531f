"""Formats columns as the user has written them, for operator names.

PySpark prints the arguments of a UDF call as nodes of Spark's tree, with their fields and an address in the JVM.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_NODE = "columnnodeexpression("
_EXPRESSION_ID = re.compile(r"\)#\d+L?")
_UNKNOWN = "..."


def column_text(column: object) -> str:
    text = str(column).removeprefix("Column<'").removesuffix("'>")
    # The last node contains no other node.
    while (start := text.rfind(_NODE)) >= 0:
        inner = text[start + len(_NODE) :]
        length = next((end for end, depth in _depths(inner) if depth < 0), None)
        if length is None:
            return f"{text[:start]}{_UNKNOWN})"
        text = text[:start] + _node(inner[:length]) + inner[length + 1 :]
    return _EXPRESSION_ID.sub(")", text)


def _node(text: str) -> str:
    name, _, rest = text.partition("(")
    fields = _fields(rest.removesuffix(")"))
    match name:
        case "UnresolvedAttribute":
            return ".".join(_listed(fields[0]))
        case "Literal":
            # If a text contains parentheses, its end may be ambiguous.
            return fields[0] if len(fields) > 1 else _UNKNOWN
        case "Alias" | "Cast":
            return _node(fields[0])
        case "UnresolvedFunction":
            return f"{fields[0]}({', '.join(map(_node, _listed(fields[1])))})"
        case _:
            return _UNKNOWN


def _listed(text: str) -> list[str]:
    return [each.strip() for each in _fields(text.removeprefix("List(").removesuffix(")"))]


def _fields(text: str) -> list[str]:
    ends = [end for end, depth in _depths(text) if depth == 0 and text[end] == ","]
    return [text[start:end] for start, end in zip([0, *(end + 1 for end in ends)], [*ends, len(text)], strict=True)]


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """Yield each index of a text, and the number of open parentheses after it."""
    depth = 0
    for place, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        yield place, depth
