"""The flight recorder: keeps the last turns in memory, and writes them as a trace when something has gone wrong.

Nothing is encoded while it records. What is kept are references to messages, which are immutable, so that a turn costs
a tuple and the weighing of what its message carries. It is on by default, and what it may hold is therefore bounded
twice: by the number of turns, and by the bytes and characters in their messages, for a checkpoint's state can be large.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from flykka.runtime.trace.format import (
    FramePacker,
    Noted,
    header,
    note_dead_letter,
    note_killed,
    note_turn,
)
from flykka.runtime.trace.weight import weight

if TYPE_CHECKING:
    from flykka.messages.failure import SerializedThrowable
    from flykka.messages.message import Message
    from flykka.messages.ref import Ref
    from flykka.runtime.envelope import Envelope
    from flykka.runtime.recording import Effect

DEFAULT_TURNS = 50_000
DEFAULT_PAYLOAD_BYTES = 64 * 1024 * 1024


class FlightRecorder:
    """Keeps one system's last `turns` records: turns, kills and dead letters.

    50,000 turns with small messages take about 30 MB of memory and 20 MB as a file, those of jobs up to thrice that.
    Older records go as soon as the messages together carry more than `payload_bytes` of text, bytes and tuples.
    """

    def __init__(self, turns: int = DEFAULT_TURNS, *, payload_bytes: int = DEFAULT_PAYLOAD_BYTES) -> None:
        assert turns > 0
        self._limit = turns
        self._payload_limit = payload_bytes
        # Reentrant: what is freed under it may have a finalizer, which may tell somebody who has ended: a dead letter.
        self._lock = threading.RLock()
        self._dumping = threading.Lock()
        self._kept: deque[tuple[int, Noted]] = deque()
        self._payload = 0
        self._noted = 0
        self._system: tuple[str, int] | None = None
        self._closed = False

    def open(self, *, system: str, seed: int) -> None:
        """The system begins. Raises `RuntimeError` for a second one: a trace tells of one system."""
        if self._system is not None:
            raise RuntimeError(f"the flight recorder of system {self._system[0]!r} cannot record {system!r} too")
        self._system = (system, seed)

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
        carried = weight(envelope.message) if failure is None else weight(envelope.message) + weight(failure)
        self._note(carried, note_turn(sequence, now_ms, recipient, envelope, effects, failure))

    def killed(self, sequence: int, now_ms: int, ref: Ref) -> None:
        """An actor was killed."""
        self._note(0, note_killed(sequence, now_ms, ref))

    def dead_letter(
        self, sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
    ) -> None:
        """A message found no one to handle it."""
        self._note(weight(message), note_dead_letter(sequence, now_ms, message, sender, recipient, reason))

    def close(self) -> None:
        """The system has ended: nobody is left whose failure would be explained, so that nothing is kept."""
        with self._lock:
            self._closed = True
            self._kept.clear()

    def dump(self, path: str | os.PathLike[str]) -> None:
        """Write what is kept as a trace, as often as wanted and while the system runs.

        The file is written under another name and renamed: at `path` there is a whole trace or what was there before.

        Raises:
            OSError: the file cannot be written.
            RuntimeError: the recorder has no system, or that has ended.
        """
        location = Path(path)
        unfinished = location.with_name(f"{location.name}.inprogress")
        with self._dumping:
            head, records = self._copy()
            location.parent.mkdir(parents=True, exist_ok=True)
            try:
                with unfinished.open("wb") as file:
                    _write(file, head, records)
                unfinished.replace(location)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise

    def _note(self, carried: int, record: Noted) -> None:
        with self._lock:
            if self._closed:
                return
            kept = self._kept
            kept.append((carried, record))
            self._noted += 1
            self._payload += carried
            # The newest record stays whatever it carries: it may be the one that explains the failure.
            while len(kept) > self._limit or (self._payload > self._payload_limit and len(kept) > 1):
                self._payload -= kept.popleft()[0]

    def _copy(self) -> tuple[dict[str, object], list[Noted]]:
        with self._lock:
            if self._system is None:
                raise RuntimeError("the flight recorder has no system yet: there is nothing to write")
            if self._closed:
                raise RuntimeError(f"system {self._system[0]!r} has ended, and with it what its recorder kept")
            records = [record for _, record in self._kept]
            not_kept = self._noted - len(records)
        begins_at = min((record[1] for record in records), default=None)
        ring = {"limit": self._limit, "not_kept": not_kept, "begins_at": begins_at}
        return {**header(*self._system), "ring": ring}, records


def _write(file: BinaryIO, head: dict[str, object], records: list[Noted]) -> None:
    frames = FramePacker()
    file.write(frames.pack(head))
    for record in records:
        file.write(frames.pack_record(record))
    file.flush()
    os.fsync(file.fileno())
