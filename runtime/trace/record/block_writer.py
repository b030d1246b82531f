"""Writes packed records to the file: in blocks, within the size cap, and with a correct end."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from flykka.runtime.trace.file import frame_format as layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from io import FileIO
    from pathlib import Path

    from flykka.runtime.trace.record_tuples import RecordTuple

logger = logging.getLogger("flykka.runtime")

_BACKLOG_BYTES = 32 * 1024 * 1024
"""The number of unwritten bytes above which a thread that adds a chunk also writes, so that a slow disk cannot fill
memory.
"""

_END_BYTES = 256


class BlockWriter:
    """Accepts chunks from any thread and writes them in order, on whichever thread calls it."""

    def __init__(self, path: Path, max_bytes: int | None) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._waiting: deque[tuple[int, bytes, dict[str, object]]] = deque()
        self._writing = threading.Lock()
        self._file: FileIO | None = None
        self._size = 0
        self._block_bytes = layout.BLOCK_BYTES
        # Two counters, each changed under its own lock.
        self._put_bytes = 0
        self._taken_bytes = 0
        self.ended = False
        """True if nothing more is written: the writer is closed, has reached its cap, or the disk is full."""

    @property
    def waiting_bytes(self) -> int:
        return self._put_bytes - self._taken_bytes

    def open(self, system: str, seed: int) -> None:
        self._file = self._path.open("wb", buffering=0)
        self._begin(system, seed)

    def groups(self, records: Sequence[RecordTuple]) -> Iterator[Sequence[RecordTuple]]:
        yield records

    def put(self, first: int, chunk: bytes, names: dict[str, object]) -> None:
        """Queue a chunk whose first record is `first`, preceded by the names that it uses first.

        Called by one thread at a time.
        """
        self._waiting.append((first, chunk, names))
        self._put_bytes += len(chunk)
        if self.waiting_bytes >= _BACKLOG_BYTES:
            self.write_waiting()

    def write_waiting(self) -> None:
        with self._writing:
            try:
                while self._waiting:
                    self._write_block()
            except OSError as error:
                # A full disk ends the recording, not the actors. The file stays readable up to here.
                logger.error("the recording of %s ends: %s", self._path, error)
                self._end()

    def close(self) -> None:
        self.write_waiting()
        with self._writing:
            if not self.ended and self._file is not None:
                try:
                    self._write(layout.end({}))
                except OSError as error:
                    logger.error("the end of the recording of %s could not be written: %s", self._path, error)
            self._end()
            if self._file is not None:
                self._file.close()

    def _begin(self, system: str, seed: int) -> None:
        self._write(layout.header(system, seed))

    def _write_block(self) -> None:
        if self.ended:
            self._waiting.clear()  # These chunks arrived after the end.
            return
        chunks = [self._waiting.popleft()]
        while self._waiting and sum(len(chunk) for _, chunk, _ in chunks) < self._block_bytes:
            chunks.append(self._waiting.popleft())
        data = _block(chunks)
        is_too_large = self._max_bytes is not None and self._size + len(data) > self._max_bytes - _END_BYTES
        if is_too_large and len(chunks) > 1:
            # The first of these chunks may still fit.
            self._waiting.extendleft(reversed(chunks))
            self._block_bytes = 0
            return
        self._taken_bytes += sum(len(chunk) for _, chunk, _ in chunks)
        if is_too_large:
            self._end_at_cap(first=chunks[0][0])
        else:
            self._write(data)

    def _end_at_cap(self, first: int) -> None:
        self._write(layout.end({"capped": {"sequence": first, "max_bytes": self._max_bytes}}))
        text = "the recording of %s ends at turn %d, at its size limit of %d bytes; the actors continue"
        logger.warning(text, self._path, first, self._max_bytes)
        self._end()

    def _end(self) -> None:
        self.ended = True
        self._waiting.clear()

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        self._size += len(data)
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]


def _block(chunks: Iterable[tuple[int, bytes, dict[str, object]]]) -> bytes:
    names: dict[str, Any] = {}
    for _, _, names_of_chunk in chunks:
        layout.merge_names(names, names_of_chunk)
    data = layout.block([chunk for _, chunk, _ in chunks])
    return layout.names(names) + data if names else data
