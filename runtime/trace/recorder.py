"""The recorder: takes note of turns in passing, packs them by the hundred, and writes them from a thread of its own.

Messages are immutable, so a turn's record may hold them and be encoded later. What a crash of the process can lose is
what is not yet packed and written: 100 ms, or little more than 256 records where these come sooner.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from flykka.runtime.trace.format import (
    TURN,
    FramePacker,
    Noted,
    header,
    note_dead_letter,
    note_killed,
)

if TYPE_CHECKING:
    import os
    from io import FileIO

    from flykka.messages.failure import SerializedThrowable
    from flykka.messages.message import Message
    from flykka.messages.ref import Ref
    from flykka.runtime.envelope import Envelope
    from flykka.runtime.props import Props
    from flykka.runtime.recording import Effect

logger = logging.getLogger("flykka.runtime")

_FLUSH_SECONDS = 0.1
_FLUSH_RECORDS = 256
_BACKLOG_CHUNKS = 1024
"""With so much waiting, packed, the actors' threads write themselves: a slow disk slows the actors, not the memory."""


class TraceRecorder:
    """Writes one system's turns to the file `path`, which it replaces.

    Turns are noted as they are. Whoever notes the 256th packs them all, on an actor's thread: it takes no longer there
    than elsewhere, for only one thread runs Python at a time, and bytes wait more cheaply than what they are made of.
    Writing, which may block, is for the recorder's own thread, which also packs what has waited for 100 ms.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._records: deque[Noted] = deque()
        self._chunks: deque[bytes] = deque()
        self._frames = FramePacker()
        self._packing = threading.Lock()
        self._writing = threading.Lock()
        self._begun = threading.Event()
        self._urgent = threading.Event()
        self._wanted_at = 1
        """How many records must wait for something to be done: 1 while the writer sleeps, 0 behind the end."""
        self._closed = False
        self._failed = False
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
        # As `note_turn` and `_note`, written out.
        records = self._records
        sender, cause, message = envelope.sender, envelope.cause, envelope.message
        records.append((TURN, sequence, now_ms, recipient, sender, cause, envelope.kind, message, effects, failure))
        if len(records) >= self._wanted_at:
            self._see_to_records()

    def spawned(self, sequence: int, now_ms: int, ref: Ref, parent: Ref, props: Props) -> None:
        """An actor was spawned from outside any turn."""

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
        with self._packing:
            self._pack()
        self._drain()
        with self._writing:
            self._failed = True
            if self._file is not None:
                self._file.close()
        self._wanted_at = 0

    def _note(self, record: Noted) -> None:
        self._records.append(record)
        if len(self._records) >= self._wanted_at:
            self._see_to_records()

    def _see_to_records(self) -> None:
        if self._failed:
            self._records.clear()
            return
        if not self._begun.is_set():
            self._wanted_at = _FLUSH_RECORDS
            self._begun.set()
        # Not waiting for who packs already: that may be this very thread, where packing frees what has a finalizer.
        if len(self._records) >= _FLUSH_RECORDS and self._packing.acquire(blocking=False):
            try:
                self._pack()
            finally:
                self._packing.release()
            self._urgent.set()
            if len(self._chunks) >= _BACKLOG_CHUNKS:
                self._drain()

    def _run(self) -> None:
        while not self._closed:
            self._begun.wait()
            self._urgent.wait(_FLUSH_SECONDS)
            self._urgent.clear()
            self._begun.clear()
            # In this order: what is noted from here on wakes this thread again, what was noted before is packed here.
            self._wanted_at = 1
            with self._packing:
                self._pack()
            self._drain()

    def _pack(self) -> None:
        """Pack what is there now; the caller holds `_packing`."""
        records, pack = self._records, self._frames.pack_record
        frames = [pack(records.popleft()) for _ in range(len(records))]
        if frames:
            self._chunks.append(b"".join(frames))

    def _drain(self) -> None:
        with self._writing:
            try:
                while self._chunks:
                    chunk = self._chunks.popleft()
                    if not self._failed:
                        self._write(chunk)
            except OSError as error:
                # A full disk ends the recording, not the actors; the file stays readable up to here.
                logger.error("the recording of %s ends: %s", self.path, error)
                self._failed = True
                self._wanted_at = 0

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
