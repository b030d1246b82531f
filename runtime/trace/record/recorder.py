"""The recorder: collects turns, packs them by the hundred, and writes them from its own thread.

Messages are immutable, so a turn's record may hold them and be encoded later. A crash of the process loses what is not
packed and written yet: the last 100 ms or, under load, little more than 256 records and one block.
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
from flykka.runtime.trace.record.block_writer import BlockWriter
from flykka.runtime.trace.record.ring_blocks import RingBlocks
from flykka.runtime.trace.record_tuples import TURN, RecordTuple, dead_letter_tuple, killed_tuple, spawned_tuple
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

    Turns are recorded as references first. The thread of the actor that records the 256th turn packs them all: this
    takes no longer there than elsewhere, because only one thread runs Python at a time, and packed bytes need less
    memory than objects. The recorder's own thread compresses and writes, which lets other threads run, and packs
    records that have waited for 100 ms.

    Args:
        path: the file; its previous content is lost when the system starts.
        max_bytes: the size limit of the file. The recording ends there, which the file and the log report; the system
            continues.
        ring: only the last records are written, at least this number and at most twice as many: when the system ends,
            and whenever `dump` is called. The file starts with snapshots of the actors, so that it can be replayed.
        redact: functions by message class, which return the message to write, of the same class. A replay compares
            only the class of these messages.
        digests: record a digest of the actor's state after each turn. This takes many times as long as the recording.
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
            raise ValueError("a ring is limited by its number of records, which must be above 0: leave out max_bytes")
        self.path = Path(path)
        self._digests = digests
        self._written = EncodedMessage(redact)
        self._packer = ChunkPacker(self._written)
        self._ring = None if ring is None else RingBlocks(self.path, ring)
        self._blocks = self._ring or BlockWriter(self.path, max_bytes)
        self._records: deque[RecordTuple] = deque()
        self._packing = threading.Lock()
        self._wake = threading.Event()
        self._urgent = threading.Event()
        self._act_at = 1
        """The number of waiting records that triggers an action: 1 while the writer sleeps, 0 after the end."""
        self._closed = False
        self._opened = False
        self._thread: threading.Thread | None = None

    def open(self, *, system: str, seed: int) -> None:
        """Create the file with its header. Raises `RuntimeError` for a second system: a recorder writes one file."""
        if self._opened or self._closed:
            raise RuntimeError(f"the recorder of {self.path} already records a system")
        self._blocks.open(system, seed)
        self._opened = True
        self._thread = threading.Thread(target=self._run, name="flykka-recorder", daemon=True)
        self._thread.start()
        # The last turns are also on disk if a program ends without terminating its system.
        atexit.register(self.close)

    @property
    def before_turn(self) -> Callable[[Cell], None] | None:
        """The hook that takes the snapshots of a ring."""
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
        # This is `_note`, inlined.
        records = self._records
        sender, cause, message = envelope.sender, envelope.cause, envelope.message
        state = self._digest(recipient) if self._digests else None
        records.append(
            (TURN, sequence, now_ms, recipient, sender, cause, envelope.kind, message, effects, failure, state)
        )
        if len(records) >= self._act_at:
            self._process_records()

    def spawned(self, sequence: int, now_ms: int, ref: Ref, parent: Ref, props: Props) -> None:
        if self._ring is not None:
            self._ring.spawned(sequence, ref)
        self._add(spawned_tuple(sequence, now_ms, ref, parent, props))

    def killed(self, sequence: int, now_ms: int, ref: Ref) -> None:
        self._add(killed_tuple(sequence, now_ms, ref))

    def dead_letter(
        self, sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
    ) -> None:
        self._add(dead_letter_tuple(sequence, now_ms, message, sender, recipient, reason))

    def dump(self) -> None:
        """Write all retained records to the file now, while the system runs. Raises `OSError` if that is impossible."""
        with self._packing:
            self._pack()
        self._blocks.write_waiting()
        if self._ring is not None:
            self._ring.write(self.path)

    def close(self) -> None:
        """Write the remaining records and close the file."""
        self._closed = True
        atexit.unregister(self.close)
        self._urgent.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with self._packing:
            self._pack()
        self._blocks.close()
        self._act_at = 0

    def _add(self, record: RecordTuple) -> None:
        self._records.append(record)
        if len(self._records) >= self._act_at:
            self._process_records()

    def _process_records(self) -> None:
        if self._blocks.ended:
            self._act_at = 0
            self._records.clear()
            return
        if not self._wake.is_set():
            self._act_at = _FLUSH_RECORDS
            self._wake.set()
        # Does not wait for a thread that is packing: it may be this very thread, if packing frees an object with a
        # finalizer.
        if len(self._records) >= _FLUSH_RECORDS and self._packing.acquire(blocking=False):
            try:
                self._pack()
            finally:
                self._packing.release()
            if self._blocks.waiting_bytes >= BLOCK_BYTES:
                self._urgent.set()

    def _run(self) -> None:
        while not self._closed:
            self._wake.wait()
            self._urgent.wait(_FLUSH_SECONDS)
            self._urgent.clear()
            self._wake.clear()
            # The order matters: records added from here on wake this thread again; earlier records are packed here.
            self._act_at = 1
            with self._packing:
                self._pack()
            self._blocks.write_waiting()

    def _pack(self) -> None:
        """Pack all current records. The caller holds `_packing`."""
        records = self._records
        packed = [records.popleft() for _ in range(len(records))]
        try:
            for group in self._blocks.groups(packed):
                for first, chunk in self._packer.pack(group):
                    self._blocks.put(first, chunk, self._written.take_names())
        except Exception:
            # This happens on an actor's thread, but is not the actor's fault: the recording ends, and the actor
            # continues.
            logger.exception("the recording of %s ends: this is an internal error of flykka", self.path)
            self._blocks.ended = True

    @staticmethod
    def _digest(recipient: Ref) -> int | None:
        cell = recipient.actor_inbox.owner if isinstance(recipient, ActorRef) else None
        instance = getattr(cell, "instance", None)
        try:
            return None if instance is None else digest(instance)
        except Exception:
            # Raised by code of its objects that runs when they are described, not by the turn that has just ended.
            logger.exception("the state of %s cannot be included in a digest", recipient)
            return None
