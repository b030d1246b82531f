"""Mutates the content of traces but keeps the checksums valid, so that the mutations do not look like damaged files."""

from __future__ import annotations

import zlib
from random import Random
from typing import Any

import msgpack

from flykka.runtime.trace.file.frame_format import BLOCK, FRAME, NAMES, SNAPSHOTS, framed
from tests.messages.mutations import Mutator


def payloads(data: bytes) -> list[bytes]:
    found = []
    while data:
        length, _ = FRAME.unpack(data[: FRAME.size])
        found.append(data[FRAME.size : FRAME.size + length])
        data = data[FRAME.size + length :]
    return found


class TraceMutator:
    def __init__(self, data: bytes, seed: int) -> None:
        self._payloads = payloads(data)
        self._random = Random(seed)
        self._mutator = Mutator(seed)
        self._messages = [msgpack.packb({"": "actor.kill"})]

    def mutated(self) -> bytes:
        random = self._random
        frames = list(self._payloads)
        for place in random.sample(range(len(frames)), min(len(frames), random.choice((1, 1, 1, 3)))):
            frames[place] = self._frame(frames[place], is_header=place == 0)
        if random.random() < 0.03:
            frames.insert(random.randrange(len(frames) + 1), random.choice(frames))
        if random.random() < 0.03:
            del frames[random.randrange(len(frames))]
        return b"".join(map(framed, frames))

    def _frame(self, payload: bytes, *, is_header: bool) -> bytes:
        random, mutator = self._random, self._mutator
        if is_header or payload[:1] not in (bytes([BLOCK]), bytes([SNAPSHOTS])):
            head, content = (b"", payload) if is_header else (payload[:1], payload[1:])
            if random.random() < 0.1:
                head = bytes([random.choice((0, BLOCK, NAMES, SNAPSHOTS, 9))])
            return head + mutator.mutated(content, self._messages)
        if random.random() < 0.03:
            return payload[:1] + mutator.bytes(payload[1:], self._messages)
        content = zlib.decompress(payload[1:])
        if random.random() < 0.1:
            return payload[:1] + zlib.compress(mutator.bytes(content, self._messages), 1)
        if payload[0] == SNAPSHOTS:
            changed = msgpack.packb(self._rows(msgpack.unpackb(content)))
            return payload[:1] + zlib.compress(changed, 1)
        chunks = _objects(content)
        place = random.randrange(len(chunks))
        chunks[place] = self._chunk(chunks[place])
        return payload[:1] + zlib.compress(b"".join(map(_packed, chunks)), 1)

    def _chunk(self, chunk: list[Any]) -> Any:
        random, mutator = self._random, self._mutator
        part = random.randrange(6)
        if part == 0 or not all(isinstance(each, list) for each in chunk) or len(chunk) != 4:
            return mutator.tree(chunk)
        refs, values, others, columns = chunk
        if part in (1, 2) and values:
            values = list(values)
            place = random.randrange(len(values))
            if isinstance(values[place], bytes) and values[place]:
                values[place] = mutator.mutated(values[place], self._messages)
            return [refs, values, others, columns]
        if part == 3 and others:
            others = [list(row) for row in others]
            row = random.choice(others)
            place = random.randrange(len(row))
            row[place] = self._graph(row[place]) if isinstance(row[place], bytes) else mutator.tree(row[place])
            return [refs, values, others, columns]
        if part in (4, 5) and columns:
            columns = list(columns)
            place = random.randrange(len(columns))
            column = list(columns[place])
            at = random.randrange(len(column)) if column else 0
            column[at : at + 1] = [mutator.tree(column[at] if column else None)]
            columns[place] = column
            return [refs, values, others, columns]
        return [mutator.tree(refs), values, others, columns]

    def _rows(self, rows: list[Any]) -> Any:
        random = self._random
        if not rows or random.random() < 0.1:
            return self._mutator.tree(rows)
        rows = [list(row) for row in rows]
        row = random.choice(rows)
        place = random.randrange(len(row))
        row[place] = self._graph(row[place]) if isinstance(row[place], bytes) else self._mutator.tree(row[place])
        return rows

    def _graph(self, graph: bytes) -> Any:
        if self._random.random() < 0.1:
            return self._mutator.junk(graph)
        if self._random.random() < 0.1:
            return self._mutator.bytes(graph, self._messages)
        tree = msgpack.unpackb(graph, unicode_errors="surrogatepass", strict_map_key=False)
        return msgpack.packb(self._mutator.tree(tree), unicode_errors="surrogatepass")


def _objects(content: bytes) -> list[Any]:
    unpacker = msgpack.Unpacker(max_buffer_size=len(content) + 1)
    unpacker.feed(content)
    return list(unpacker)


def _packed(item: object) -> bytes:
    packed: bytes = msgpack.packb(item, unicode_errors="surrogatepass")
    return packed
