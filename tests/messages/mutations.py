"""Mutates messages on the wire: their trees, and their bytes."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import msgpack

from flykka.messages.wire.tags import registered
from flykka.runtime.trace.file.reader import TraceReader
from tests.layout.sources import ROOT

NUMBERS = (0, 1, -1, 127, 128, 255, 256, 1 << 31, 1 << 32, (1 << 63) - 1, (1 << 64) - 1, -(1 << 63))
BYTES = (b"\xc1", b"\xdf\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff")
"""A byte without a meaning, and lengths that are too large: of a map, an array, a text and bytes."""


def recorded_messages() -> list[bytes]:
    """Return the messages of the golden traces, each once."""
    found: dict[bytes, None] = {}
    for path in sorted((ROOT / "tests" / "histories").glob("*.trace")):
        for turn in TraceReader.open(path):
            content: Any = turn.unread
            found.update(dict.fromkeys(each for each in content._chunk.values if isinstance(each, bytes)))
    return list(found)


def nested(levels: int, leaf: object = None) -> object:
    for _ in range(levels):
        leaf = [leaf]
    return leaf


def chained(levels: int) -> object:
    """Return messages within messages, of a class that may contain any message."""
    chain: object = {"": "leader.session_message", "leader_session_id": "a", "message": None}
    for _ in range(levels):
        chain = {"": "leader.session_message", "leader_session_id": "a", "message": chain}
    return chain


class Mutator:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._tags = [tag for tag, kind in registered().items() if kind.__module__.startswith("flykka.")]

    def mutated(self, packed: bytes, others: list[bytes]) -> bytes:
        """Return the message with one or more mutations of its tree or of its bytes."""
        random = self._random
        if random.random() < 0.7:
            try:
                tree = msgpack.unpackb(packed, strict_map_key=False)
                for _ in range(random.choice((1, 1, 1, 2, 5))):
                    tree = self.tree(tree)
                return msgpack.packb(tree)
            except (ValueError, OverflowError, TypeError):
                pass  # Mutate the bytes instead, because there is no tree or msgpack cannot encode a part of it.
        return self.bytes(packed, others)

    def tree(self, tree: Any) -> Any:
        random = self._random
        if not isinstance(tree, dict | list) or not tree or random.random() < 0.15:
            return self.junk(tree)
        if isinstance(tree, dict):
            key = random.choice(list(tree))
            match random.randrange(8):
                case 0:
                    return {name: part for name, part in tree.items() if name != key}
                case 1:
                    return {**tree, random.choice(("", "more", key)): self.junk(tree[key])}
                case 2:
                    return {**tree, "": random.choice(self._tags)}
                case 3:
                    return {(self.junk(name) if name == key else name): part for name, part in tree.items()}
            return {**tree, key: self.tree(tree[key])}
        place = random.randrange(len(tree))
        match random.randrange(8):
            case 0:
                return tree[:place]
            case 1:
                return [*tree, tree[place]]
            case 2:
                return tree * random.choice((2, 3))
        return [*tree[:place], self.tree(tree[place]), *tree[place + 1 :]]

    def junk(self, part: object) -> Any:
        random = self._random
        match random.randrange(16):
            case 0:
                return None
            case 1:
                return random.choice((True, False))
            case 2 | 3:
                return random.choice(NUMBERS)
            case 4:
                return random.choice((float("nan"), float("inf"), -0.5, 1e308))
            case 5:
                return random.choice(("", "x", "a" * 300, "\x00", "../..", "é", *self._tags[:3]))
            case 6:
                return random.randbytes(random.choice((0, 1, 40)))
            case 7:
                return random.choice(([], {}, [[]], {"": None}, {"": random.choice(self._tags)}))
            case 8:
                return msgpack.ExtType(random.choice((0, 1, 2, 127)), random.randbytes(random.choice((0, 4, 8))))
            case 9:
                return msgpack.ExtType(1, msgpack.packb([random.choice(("", "/user/a", 1)), random.choice(NUMBERS)]))
            case 10:
                return nested(random.choice((2, 90, 400)))
            case 11:
                return chained(random.choice((2, 60, 150)))
            case 12 if isinstance(part, int):
                return part + random.choice((-1, 1, 1 << 40))
            case 13 if isinstance(part, str):
                return part[:-1] or "y"
            case 14:
                return [part, part]
            case _:
                return str(part)[:100]

    def bytes(self, packed: bytes, others: list[bytes]) -> bytes:
        random = self._random
        data = bytearray(packed)
        for _ in range(random.choice((1, 1, 2, 8))):
            place = random.randrange(len(data) + 1)
            match random.randrange(7):
                case 0:
                    del data[place:]
                case 1:
                    del data[place : place + random.choice((1, 2, 16))]
                case 2:
                    data[place:place] = random.randbytes(random.choice((1, 4)))
                case 3:
                    data[place : place + 5] = random.choice(BYTES)
                case 4:
                    data[place:place] = random.choice(others)
                case 5:
                    data[place : place + 4] = struct.pack(">I", random.choice(NUMBERS) & 0xFFFFFFFF)
                case _ if place < len(data):
                    data[place] ^= 1 << random.randrange(8)
        return bytes(data)
