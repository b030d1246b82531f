"""The recorder: takes note of turns in passing, and writes them from a thread of its own.

Messages are immutable, so a turn's record may hold them and be encoded later. What a crash of the process can lose is
what the writer has not yet seen: 100 ms, or 256 records where these come sooner.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from flykka.runtime.trace.format import (
    FramePacker,
    Noted,
    header,
    note_dead_letter,
    note_killed,
    note_turn,
    pack_record,
)

if TYPE_CHECKING:
    import os
    from io import FileIO

    from flykka.messages.failure import SerializedThrowable
    from flykka.messages.message import Message
    from flykka.messages.ref import Ref
    from flykka.runtime.envelope import Envelope
    from flykka.runtime.recording import Effect

logger = logging.getLogger("flykka.runtime")

_FLUSH_SECONDS = 0.1
_FLUSH_RECORDS = 256
_CHUNK_BYTES = 64 * 1024
_BACKLOG_LIMIT = 65_536
"""With so many records waiting, the actors' threads write themselves: a slow disk slows the actors, not the memory."""


class TraceRecorder:
    """Writes one system's turns to the file `path`, which it replaces."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._records: deque[Noted] = deque()
        self._frames = FramePacker()
        self._writing = threading.Lock()
        self._begun = threading.Event()
        self._urgent = threading.Event()
        self._closed = False
        self._file: FileIO | None = None
        self._thread: threading.Thread | None = None

    def open(self, *, system: str, seed: int) -> None:
        """Begin the file with its header. Raises `RuntimeError` for a second system: a recorder writes one file."""
        if self._file is not None or self._closed:
            raise RuntimeError(f"the recorder of {self.path} has a system already")
        self._file = self.path.open("wb", buffering=0)
        self._write(self._frames.pack(header(system, seed)))
        self._thread = threading.Thread(target=self._run, name="flykka-recorder", daemon=True)
        self._thread.start()
        # A program that ends without terminating its system has its last turns on disk too.
        atexit.register(self.close)

    def turn(
        self,
        sequence: int,
        now_ms: int,
        recipient: Ref,
        envelope: Envelope,
        effects: list[Effect],
        failure: SerializedThrowable | None,
    ) -> None:
        """An actor has taken a turn."""
        self._note(note_turn(sequence, now_ms, recipient, envelope, effects, failure))

    def killed(self, sequence: int, now_ms: int, ref: Ref) -> None:
        """An actor was killed."""
        self._note(note_killed(sequence, now_ms, ref))

    def dead_letter(
        self, sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
    ) -> None:
        """A message found no one to handle it."""
        self._note(note_dead_letter(sequence, now_ms, message, sender, recipient, reason))

    def close(self) -> None:
        """Write what is left and close the file."""
        self._closed = True
        atexit.unregister(self.close)
        self._urgent.set()
        self._begun.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._drain()
        with self._writing:
            if self._file is not None:
                self._file.close()

    def _note(self, record: Noted) -> None:
        if self._closed:
            return
        self._records.append(record)
        if not self._begun.is_set():
            self._begun.set()
        waiting = len(self._records)
        if waiting >= _FLUSH_RECORDS and not self._urgent.is_set():
            self._urgent.set()
        if waiting >= _BACKLOG_LIMIT:
            self._drain()

    def _run(self) -> None:
        while not self._closed:
            self._begun.wait()
            self._urgent.wait(_FLUSH_SECONDS)
            self._urgent.clear()
            self._begun.clear()
            self._drain()

    def _drain(self) -> None:
        with self._writing:
            try:
                self._write_waiting()
            except OSError as error:
                # A full disk ends the recording, not the actors; the file stays readable up to here.
                logger.error("the recording of %s ends: %s", self.path, error)
                self._closed = True
                self._records.clear()

    def _write_waiting(self) -> None:
        chunk = bytearray()
        while self._records:
            record = self._records.popleft()
            chunk += self._frames.pack(pack_record(record))
            if len(chunk) >= _CHUNK_BYTES:
                self._write(chunk)
                chunk = bytearray()
        if chunk:
            self._write(chunk)

    def _write(self, data: bytes | bytearray) -> None:
        assert self._file is not None
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
