"""Graphs to be looked at, without making anything of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgpack

from flykka.messages.wire.forms import TAG_KEY

_MAX_DEPTH = 8


def unpacked(graph: bytes) -> tuple[list[Any], list[Any]]:
    """The nodes of a graph, and the items that were packed. Raises `ValueError` for anything else."""
    nodes, items = msgpack.unpackb(graph, unicode_errors="surrogatepass", strict_map_key=False)
    return nodes, items


def graph_text(graph: bytes) -> str:
    """The first item of a graph in one line, such as `app:Worker(1, <app:Session>)`: of the last there is no copy."""
    nodes, items = unpacked(graph)
    return _text(nodes, items[0], 0)


def classes_of(graph: bytes, name: str, owners: str = "") -> list[str]:
    """The classes, as "module:Qualname", of what objects and Props in a graph have under this name.

    Of those alone whose own class begins with `owners`.
    """
    nodes, _ = unpacked(graph)
    named = [pair for kind, content in nodes for pair in _named_parts(nodes, kind, content, owners)]
    held = [nodes[item[0]] for key, item in named if key == name and isinstance(item, list)]
    names = {"opaque": lambda content: content, "object": lambda content: content[0]}
    return [names[kind](content) for kind, content in held if kind in names]


def _named_parts(nodes: list[Any], kind: str, content: Any, owners: str) -> Iterable[tuple[str, Any]]:
    match kind, content:
        case "object", [str() as owner, pairs] if owner.startswith(owners):
            return [(key, item) for key, item in pairs]
        case "props", [[factory], _, pairs, *_] if str(nodes[factory][1]).startswith(owners):
            return [(key, item) for key, item in pairs]
        case _:
            return ()


def _text(nodes: list[Any], item: Any, depth: int) -> str:
    if not isinstance(item, list):
        return repr(item)
    if depth > _MAX_DEPTH:
        return "..."
    kind, content = nodes[item[0]]

    def text(part: Any) -> str:
        return _text(nodes, part, depth + 1)

    match kind:
        case "props":
            factory, args, kwargs, *_ = content
            return f"{text(factory)}({', '.join([*map(text, args), *_assigned(text, kwargs)])})"
        case "object":
            return f"{content[0]}({', '.join(_assigned(text, content[1]))})"
        case "value":
            said = msgpack.unpackb(content, strict_map_key=False)
            return str(said.get(TAG_KEY, "?")) if isinstance(said, dict) else "?"
        case "ref":
            return f"{content[0]}#{content[1]}"
        case "enum":
            return ".".join(content)
        case "named" | "int":
            return str(content)
        case "opaque":
            return f"<{content}>"
        case "dict" | "OrderedDict" | "Counter":
            return f"{{{', '.join(f'{text(key)}: {text(part)}' for key, part in content)}}}"
        case "list" | "tuple" | "set" | "frozenset":
            return f"{kind}({', '.join(map(text, content))})"
        case _:
            return f"{kind}(...)"


def _assigned(text: Any, pairs: Iterable[tuple[str, Any]]) -> list[str]:
    return [f"{name}={text(part)}" for name, part in pairs]
