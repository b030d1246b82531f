"""Area 09, subpartition: what its reader may take, and when it is woken.

A buffer of n bytes is a batch of n bytes with n rows; an event has no size of its own here, so the adapter remembers
which one the case has given it.
"""

from __future__ import annotations

from typing import Any

import pytest

from flykka.actors.exchange.blocking_subpartition import BlockingSubpartition, BlockingSubpartitionView
from flykka.actors.exchange.subpartition import BufferAndBacklog, PipelinedSubpartition
from flykka.messages.batch import BatchRef
from flykka.messages.checkpoint import AlignmentType, CheckpointOptions
from flykka.messages.exchange import CheckpointBarrier, EndOfPartition, Event, Watermark
from flykka.messages.ids import BatchId
from tests.actors.exchange.builders import partition_id
from tests.conformance.case_files import Case, UnknownWordError, is_since, only_known_words

END_OF_PARTITION_BYTES = 4
"""What Flink writes for it."""

BEGIN = {"kind", "view", "partition_type"}
STEP = {"do", "bytes", "complete", "event", "aligned_barrier", "unaligned_barrier", "want"}


def _buffer(number: int, size: int) -> BatchRef:
    return BatchRef(batch_id=BatchId(f"b{number}"), rows=size, size_bytes=size)


class Pipelined:
    """A subpartition with the wake-ups of its reader counted."""

    def __init__(self, given: Case, *, blocks_behind_barriers: bool) -> None:
        only_known_words("given", given, BEGIN)
        self.subpartition = PipelinedSubpartition(partition_id(), 0, blocks_behind_barriers=blocks_behind_barriers)
        self.notifications = 0
        self.priority_notifications = 0
        self.in_flight: list[int] = []
        self.freed = 0
        self.rejected = 0
        self.view_is_released: bool | None = False if given.get("view") else None
        self.view_was_released_before: bool | None = None
        self.data_read = 0
        self._events: dict[Event, Any] = {EndOfPartition(): END_OF_PARTITION_BYTES}
        self._added = 0
        self._event_bytes = 0
        if given.get("view"):
            self.subpartition.create_view()

    def do(self, step: Case) -> None:
        only_known_words("step", step, STEP)
        before = self.notifications
        if step.get("want") == "error":
            with pytest.raises(AssertionError):
                self.do({word: value for word, value in step.items() if word != "want"})
            return
        wanted = dict(step.get("want", {}))
        match step:
            case {"do": "add", "bytes": size}:
                accepted = self._add(step, size)
                assert wanted.pop("accepted", accepted) == accepted
            case {"do": "complete_last"}:
                self.subpartition.complete_last()
            case {"do": "flush"}:
                self.notifications += self.subpartition.flush()
            case {"do": "finish"}:
                self.notifications += self.subpartition.finish()
            case {"do": "resume_consumption"}:
                self.subpartition.resume_consumption()
            case {"do": "create_view"}:
                self._create_view()
            case {"do": "poll"}:
                got = self._poll()
                if "got" in wanted:
                    _expect_got(got, wanted.pop("got"))
            case {"do": "release"}:
                self.view_was_released_before = self.view_is_released
                self.freed += len(self.subpartition.release())
                self.view_is_released = self._releases_view()
            case {"do": "release_view"}:
                self.freed += len(self.subpartition.drain())
                self.view_is_released = True
            case _:
                raise UnknownWordError(f"step: {step}")
        self.subpartition.check()
        if "new_notifications" in wanted:
            assert self.notifications - before == wanted.pop("new_notifications")
        for word, figure in wanted.items():
            assert self._figure(word) == figure, word

    def expect(self, word: str, wanted: Any) -> None:
        match word:
            case "all_wants_hold":
                pass
            case "rejected_buffer_freed":
                # Whoever made it keeps it, and releases it (`ResultPartition` does).
                assert (self.rejected > 0) == wanted
            case "data_buffers_read_while_available":
                while self.subpartition.is_available():
                    self._poll()
                assert self.data_read == wanted
            case "queued_buffers_freed":
                assert self.freed == wanted
            case "view_released":
                assert bool(self.view_is_released) == wanted
            case "view_released_before":
                assert self.view_was_released_before == wanted
            case "subpartition_released":
                assert self.subpartition.is_released == wanted
            case _:
                assert self._figure(word) == wanted, word

    def _add(self, step: Case, size: Any) -> bool:
        if not self.subpartition.takes_more:
            self.rejected += 1
            return False
        if "unaligned_barrier" in step:
            barrier = _barrier(AlignmentType.UNALIGNED, step["unaligned_barrier"])
            self._events[barrier] = size
            wakes, overtaken = self.subpartition.add_priority(barrier)
            self.priority_notifications += wakes
            self.in_flight = [batch.size_bytes for batch in overtaken]
            return True
        self._added += 1
        if step.get("event"):
            aligned = step.get("aligned_barrier")
            event = _barrier(AlignmentType.ALIGNED, self._added) if aligned else Watermark(timestamp_ms=self._added)
            self._events[event] = size
            self.notifications += self.subpartition.add(event)
        else:
            buffer = _buffer(self._added, size)
            self.notifications += self.subpartition.add(buffer, complete=step.get("complete", True))
        return True

    def _create_view(self) -> None:
        self.subpartition.create_view()
        self.view_is_released = False
        # The reader looks when it comes.
        self.notifications += self.subpartition.is_available()

    def _poll(self) -> dict[str, Any] | None:
        taken = self.subpartition.poll()
        self.freed += len(self.subpartition.take_dropped())
        if taken is None:
            return None
        self.data_read += isinstance(taken.buffer, BatchRef)
        if not isinstance(taken.buffer, BatchRef) and isinstance(self._events[taken.buffer], int):
            self._event_bytes += self._events[taken.buffer]
        return self._words(taken)

    def _words(self, taken: BufferAndBacklog) -> dict[str, Any]:
        is_data = isinstance(taken.buffer, BatchRef)
        return {
            "bytes": taken.buffer.size_bytes if isinstance(taken.buffer, BatchRef) else self._events[taken.buffer],
            "kind": "data" if is_data else "event",
            "more": taken.data_available,
            "backlog": taken.backlog,
            "next_is_event": taken.next_is_event,
        }

    def _releases_view(self) -> bool | None:
        return None if self.view_is_released is None else True

    def _figure(self, word: str) -> Any:
        match word:
            case "notifications":
                return self.notifications
            case "priority_notifications":
                return self.priority_notifications
            case "in_flight":
                return self.in_flight
            case "backlog":
                return self.subpartition.backlog
            case "available":
                return self.subpartition.is_available()
            case "total_buffers":
                return self.subpartition.total_buffers
            case "total_bytes":
                return self.subpartition.total_bytes + self._event_bytes
            case _:
                raise UnknownWordError(f"want: {word}")


def _expect_got(got: dict[str, Any] | None, wanted: dict[str, Any] | None) -> None:
    if got is None or wanted is None:
        assert got == wanted
        return
    only_known_words("got", wanted, set(got))
    assert {word: got[word] for word in wanted} == wanted


def _barrier(alignment: AlignmentType, checkpoint_id: int) -> CheckpointBarrier:
    return CheckpointBarrier(
        checkpoint_id=checkpoint_id, timestamp_ms=0, options=CheckpointOptions(alignment=alignment)
    )


def _run_blocking(case: Case) -> None:
    subpartition = BlockingSubpartition(partition_id(), 0)
    views: list[BlockingSubpartitionView] = []
    written = [_buffer(number, 1024) for number in range(3)]
    only_known_words("given", case["given"], BEGIN)
    for step in case["steps"]:
        only_known_words("step", step, {"do", "readers"})
        match step:
            case {"do": "write_data"}:
                for buffer in written:
                    subpartition.add(buffer)
            case {"do": "finish"}:
                subpartition.finish()
            case {"do": "read_everything", "readers": readers}:
                views += [subpartition.create_view() for _ in range(readers)]
            case {"do": "release"}:
                subpartition.release()
            case _:
                raise UnknownWordError(f"step: {step}")
        subpartition.check()
    for word, wanted in case["expect"].items():
        match word:
            case "every_reader_sees_all_data":
                everything = [*written, EndOfPartition()]
                seen = [[taken.buffer for taken in iter(view.poll, None)] for view in views]
                assert all(elements == everything for elements in seen) == wanted
            case "subpartition_released":
                assert subpartition.is_released == wanted
            case _:
                raise UnknownWordError(f"expect: {word}")


def run_subpartition(case: Case) -> None:
    """Run a case about one subpartition."""
    given = case["given"]
    match given.get("partition_type", "pipelined"):
        case "blocking":
            _run_blocking(case)
            return
        case "pipelined":
            pass
        case unknown:
            raise UnknownWordError(f"partition_type: {unknown}")
    subpartition = Pipelined(given, blocks_behind_barriers=is_since(case, 1, 11))
    for step in case["steps"]:
        subpartition.do(step)
    for word, wanted in case["expect"].items():
        subpartition.expect(word, wanted)
