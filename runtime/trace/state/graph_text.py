"""Shows graphs as text, without creating their objects."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from flykka.messages.wire.schemas import TAG_KEY
from flykka.messages.wire.unpacking import unpack
from flykka.runtime.errors import TraceError

_MALFORMED = (LookupError, TypeError, ValueError, AttributeError)
_MAX_DEPTH = 8
_MAX_PARTS = 1_000


def unpacked(graph: bytes) -> tuple[list[Any], list[Any]]:
    """Return the nodes of a graph, and the packed items. Raises `ValueError` or `TypeError` for anything else."""
    nodes, items = unpack(graph, unicode_errors="surrogatepass", strict_map_key=False)
    for kind, _ in nodes:
        if type(kind) is not str:
            raise TypeError(f"the kind of a graph node must be a string, not {kind!r}")
    if type(items) is not list:
        raise TypeError("the items of a graph are missing")
    return nodes, items


def graph_text(graph: bytes) -> str:
    """Return the first item of a graph in one line, such as `app:Worker(1, <app:Session>)`. `<...>` marks an object
    without a copy.

    Raises:
        TraceError: the bytes are not a graph.
    """
    try:
        nodes, items = unpacked(graph)
        return _Text(nodes).of(items[0], 0)
    except _MALFORMED as wrong:
        raise TraceError(f"the arguments of an actor cannot be read: {wrong}") from wrong


def classes_of(graph: bytes, name: str, owners: str = "") -> list[str]:
    """Return the class names of the objects that objects and Props in a graph have under this name.

    Considers only objects whose class name starts with `owners`.
    """
    try:
        nodes, _ = unpacked(graph)
        named = [pair for kind, content in nodes for pair in _named_parts(nodes, kind, content, owners)]
        contents = [nodes[item[0]] for key, item in named if key == name and isinstance(item, list)]
        classes = [
            content[0] if kind == "object" else content for kind, content in contents if kind in ("object", "opaque")
        ]
    except _MALFORMED:
        return []  # The error is raised when the actor is created.
    return [each for each in classes if isinstance(each, str)]


def _named_parts(nodes: list[Any], kind: str, content: Any, owners: str) -> Iterable[tuple[str, Any]]:
    match kind, content:
        case "object", [str() as owner, pairs] if owner.startswith(owners):
            return [(key, item) for key, item in pairs]
        case "props", [[factory], _, pairs, *_] if str(nodes[factory][1]).startswith(owners):
            return [(key, item) for key, item in pairs]
        case _:
            return ()


class _Text:
    """Writes the nodes of a graph as text, up to a maximum length: nodes may be shared many times."""

    def __init__(self, nodes: list[Any]) -> None:
        self._nodes = nodes
        self._left = _MAX_PARTS

    def of(self, item: Any, depth: int) -> str:
        if not isinstance(item, list):
            return repr(item)
        self._left -= 1
        if depth > _MAX_DEPTH or self._left < 0:
            return "..."
        (place,) = item
        kind, content = self._nodes[place]

        def text(part: Any) -> str:
            return self.of(part, depth + 1)

        def texts(parts: Iterable[Any]) -> list[str]:
            return [text(part) for part in islice(parts, max(0, self._left) + 1)]

        match kind:
            case "props":
                factory, args, kwargs, *_ = content
                return f"{text(factory)}({', '.join([*texts(args), *_assigned(text, kwargs)])})"
            case "object":
                return f"{content[0]}({', '.join(_assigned(text, content[1]))})"
            case "value":
                values = unpack(content, strict_map_key=False)
                return str(values.get(TAG_KEY, "?"))[:_MAX_PARTS] if isinstance(values, dict) else "?"
            case "ref":
                return f"{content[0]}#{content[1]}"
            case "enum":
                return ".".join(content)
            case "named" | "int":
                return str(content)
            case "opaque":
                return f"<{content}>"
            case "dict" | "OrderedDict" | "Counter":
                return f"{{{', '.join(f'{text(key)}: {text(part)}' for key, part in content[: self._left + 1])}}}"
            case "list" | "tuple" | "set" | "frozenset":
                return f"{kind}({', '.join(texts(content))})"
            case _:
                return f"{kind}(...)"


def _assigned(text: Any, pairs: Iterable[tuple[str, Any]]) -> list[str]:
    return [f"{name}={text(part)}" for name, part in pairs]
