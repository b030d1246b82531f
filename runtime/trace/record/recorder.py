"""The recorder: takes note of turns in passing, packs them by the hundred, and writes them from a thread of its own.

Messages are immutable, so a turn's record may hold them and be encoded later. What a crash of the process can lose is
what is not yet packed and written: 100 ms, or where these are full sooner little more than 256 records and one block.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from flykka.runtime.recording import Recorder
from flykka.runtime.ref import ActorRef
from flykka.runtime.trace.file.frame_format import BLOCK_BYTES
from flykka.runtime.trace.file.message_encoding import EncodedMessage
from flykka.runtime.trace.file.record_chunks import ChunkPacker
from flykka.runtime.trace.noted import TURN, Noted, note_dead_letter, note_killed, note_spawned
from flykka.runtime.trace.record.block_writer import BlockWriter
from flykka.runtime.trace.record.ring_blocks import RingBlocks
from flykka.runtime.trace.state.description import digest

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.message import Message
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.mailbox.envelope import Envelope
    from flykka.runtime.props import Props
    from flykka.runtime.recording import Effect
    from flykka.runtime.trace.file.message_encoding import Redact

logger = logging.getLogger("flykka.runtime")

_FLUSH_SECONDS = 0.1
_FLUSH_RECORDS = 256


class TraceRecorder(Recorder):
    """Writes one system's turns to the file `path`, which it replaces.

    Turns are noted as they are. The thread that notes the 256th packs them all, an actor's: it takes no longer there
    than elsewhere, for only one thread runs Python at a time, and bytes wait more cheaply than what they are made of.
    Compressing and writing, which let others run, are for the recorder's own thread, which also packs what has waited
    for 100 ms.

    Args:
        path: the file; what it held before is gone when the system begins.
        max_bytes: the file grows no further than this. The recording ends there, which the file and the log say; the
            system goes on.
        ring: nothing is written but the last records, so many at least and twice as many at most: when the system ends,
            and whenever `dump` is called. The file begins with snapshots of the actors, so that it replays.
        redact: for classes of messages a function that makes of each the one to write, of the same class. A replay
            compares only the class of these.
        digests: have each turn tell the state behind it, in one number. It takes many times as long as the rest.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int | None = None,
        ring: int | None = None,
        redact: Redact | None = None,
        digests: bool = False,
    ) -> None:
        if ring is not None and (max_bytes is not None or ring < 1):
            raise ValueError("a ring is a number of records above 0, and is bounded by it: it has no max_bytes")
        self.path = Path(path)
        self._digests = digests
        self._written = EncodedMessage(redact)
        self._packer = ChunkPacker(self._written)
        self._ring = None if ring is None else RingBlocks(self.path, ring)
        self._blocks = self._ring or BlockWriter(self.path, max_bytes)
        self._records: deque[Noted] = deque()
        self._packing = threading.Lock()
        self._begun = threading.Event()
        self._urgent = threading.Event()
        self._wanted_at = 1
        """Number of records that must wait for something to be done: 1 while the writer sleeps, 0 behind the end."""
        self._closed = False
        self._opened = False
        self._thread: threading.Thread | None = None

    def open(self, *, system: str, seed: int) -> None:
        """Begin the file with its header. Raises `RuntimeError` for a second system: a recorder writes one file."""
        if self._opened or self._closed:
            raise RuntimeError(f"the recorder of {self.path} has a system already")
        self._blocks.open(system, seed)
        self._opened = True
        self._thread = threading.Thread(target=self._run, name="flykka-recorder", daemon=True)
        self._thread.start()
        # A program that ends without terminating its system has its last turns on disk too.
        atexit.register(self.close)

    @property
    def before_turn(self) -> Callable[[Cell], None] | None:
        """The hook that keeps the snapshots of a ring."""
        return None if self._ring is None else self._ring.before_turn

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
        # As `_note`, written out.
        records = self._records
        sender, cause, message = envelope.sender, envelope.cause, envelope.message
        state = self._digest(recipient) if self._digests else None
        records.append(
            (TURN, sequence, now_ms, recipient, sender, cause, envelope.kind, message, effects, failure, state)
        )
        if len(records) >= self._wanted_at:
            self._see_to_records()

    def spawned(self, sequence: int, now_ms: int, ref: Ref, parent: Ref, props: Props) -> None:
        """An actor was spawned from outside any turn."""
        if self._ring is not None:
            self._ring.spawned(sequence, ref)
        self._note(note_spawned(sequence, now_ms, ref, parent, props))

    def killed(self, sequence: int, now_ms: int, ref: Ref) -> None:
        """An actor was killed."""
        self._note(note_killed(sequence, now_ms, ref))

    def dead_letter(
        self, sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
    ) -> None:
        """A message found no one to handle it."""
        self._note(note_dead_letter(sequence, now_ms, message, sender, recipient, reason))

    def dump(self) -> None:
        """Have everything that is kept in the file now, while the system runs. Raises `OSError` where it cannot be."""
        with self._packing:
            self._pack()
        self._blocks.write_waiting()
        if self._ring is not None:
            self._ring.write(self.path)

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
        self._blocks.close()
        self._wanted_at = 0

    def _note(self, record: Noted) -> None:
        self._records.append(record)
        if len(self._records) >= self._wanted_at:
            self._see_to_records()

    def _see_to_records(self) -> None:
        if self._blocks.ended:
            self._wanted_at = 0
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
            if self._blocks.waiting_bytes >= BLOCK_BYTES:
                self._urgent.set()

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
            self._blocks.write_waiting()

    def _pack(self) -> None:
        """Pack what is there now; the caller holds `_packing`."""
        records = self._records
        noted = [records.popleft() for _ in range(len(records))]
        try:
            for group in self._blocks.groups(noted):
                for first, chunk in self._packer.pack(group):
                    self._blocks.put(first, chunk, self._written.take_names())
        except Exception:
            # On an actor's thread, and none of its making: the recording ends, and the actor goes on.
            logger.exception("the recording of %s ends: this is an error of flykka's own", self.path)
            self._blocks.ended = True

    @staticmethod
    def _digest(recipient: Ref) -> int | None:
        """The state behind the turn, in which this is called; None where the turn has left no instance."""
        cell = recipient.actor_inbox.owner if isinstance(recipient, ActorRef) else None
        instance = getattr(cell, "instance", None)
        try:
            return None if instance is None else digest(instance)
        except Exception:
            # Of code that its objects run when they are looked at, and not of the turn that has just ended.
            logger.exception("the state of %s cannot be put into a digest", recipient)
            return None
