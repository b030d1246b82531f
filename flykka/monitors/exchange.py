"""Checks that no batch is sent without credit, and that elements arrive in order, without gaps, until the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flykka.messages.tasks.exchange import (
    AddCredit,
    BatchRef,
    BufferResponse,
    CancelPartitionRequest,
    EndOfPartition,
    PartitionRequest,
)
from flykka.messages.tasks.task import ExecutionState, UpdateTaskExecutionState
from flykka.messages.wire.ids import ResultPartitionId
from flykka.messages.wire.ref import Ref
from flykka.monitors.monitor import ConversationMonitor, OnReceived, OnSent, Violation
from flykka.runtime.trace.effects import Send
from flykka.runtime.trace.records import Turn

Channel = tuple[ResultPartitionId, int]


@dataclass(slots=True)
class _WatchedReader:
    """A subpartition and its reader, as seen by the producer or the consumer."""

    credit: int
    next_number: int = 0
    has_ended: bool = False


class ExchangeMonitor(ConversationMonitor):
    """Observes the producer and the consumer of every channel separately.

    A producer may only send batches for which it has credit. A consumer may only receive batches for which it has
    granted credit.
    """

    name = "exchange"

    def __init__(self) -> None:
        super().__init__()
        self._outputs: dict[Ref, dict[Channel, _WatchedReader]] = {}
        self._inputs: dict[Ref, dict[Channel, _WatchedReader]] = {}

    def received(self) -> Mapping[type, OnReceived]:
        return {
            PartitionRequest: self._on_asked,
            AddCredit: self._on_credit,
            CancelPartitionRequest: self._on_left,
            BufferResponse: self._on_arrived,
        }

    def sent(self) -> Mapping[type, OnSent]:
        return {
            PartitionRequest: self._on_ask,
            AddCredit: self._on_give,
            CancelPartitionRequest: self._on_leave,
            BufferResponse: self._on_sent,
            UpdateTaskExecutionState: self._on_state,
        }

    def ended(self, ref: Ref) -> None:
        self._outputs.pop(ref, None)
        self._inputs.pop(ref, None)

    def _on_asked(self, turn: Turn, message: PartitionRequest) -> None:
        if not _is_forwarded(turn, message):
            reader = _WatchedReader(message.credit)
            self._outputs.setdefault(turn.recipient, {})[message.partition_id, message.subpartition] = reader

    def _on_credit(self, turn: Turn, message: AddCredit) -> None:
        reader = self._outputs.get(turn.recipient, {}).get((message.partition_id, message.subpartition))
        if reader is not None:
            reader.credit += message.credit

    def _on_left(self, turn: Turn, message: CancelPartitionRequest) -> None:
        self._outputs.get(turn.recipient, {}).pop((message.partition_id, message.subpartition), None)

    def _on_sent(self, turn: Turn, _to: Ref, message: BufferResponse) -> Iterator[Violation]:
        reader = self._outputs.get(turn.recipient, {}).get((message.partition_id, message.subpartition))
        if reader is None:
            return
        yield from self._passes(turn, reader, message, "is sent", takes_credit=isinstance(message.buffer, BatchRef))
        reader.has_ended = isinstance(message.buffer, EndOfPartition)

    def _on_state(self, turn: Turn, _to: Ref, message: UpdateTaskExecutionState) -> Iterator[Violation]:
        if message.state.state is not ExecutionState.FINISHED:
            return
        for (partition_id, subpartition), reader in self._outputs.pop(turn.recipient, {}).items():
            if not reader.has_ended:
                text = f"{message.state.attempt} finishes, but the end of subpartition {subpartition} of {partition_id}"
                yield self.violation(turn, f"{text} was not sent")

    def _on_ask(self, turn: Turn, _to: Ref, message: PartitionRequest) -> None:
        if message.consumer == turn.recipient:
            reader = _WatchedReader(message.credit)
            self._inputs.setdefault(turn.recipient, {})[message.partition_id, message.subpartition] = reader

    def _on_give(self, turn: Turn, _to: Ref, message: AddCredit) -> None:
        reader = self._inputs.get(turn.recipient, {}).get((message.partition_id, message.subpartition))
        if reader is not None:
            reader.credit += message.credit

    def _on_leave(self, turn: Turn, _to: Ref, message: CancelPartitionRequest) -> None:
        # Elements in transit still arrive, but are dropped.
        self._inputs.get(turn.recipient, {}).pop((message.partition_id, message.subpartition), None)

    def _on_arrived(self, turn: Turn, message: BufferResponse) -> Iterator[Violation]:
        channels = self._inputs.get(turn.recipient, {})
        reader = channels.get((message.partition_id, message.subpartition))
        if reader is None:
            return
        has_rows = isinstance(message.buffer, BatchRef) and message.buffer.rows > 0
        yield from self._passes(turn, reader, message, "arrives", takes_credit=has_rows)
        if isinstance(message.buffer, EndOfPartition):
            del channels[message.partition_id, message.subpartition]

    def _passes(
        self, turn: Turn, reader: _WatchedReader, message: BufferResponse, what: str, *, takes_credit: bool
    ) -> Iterator[Violation]:
        if message.sequence_number != reader.next_number:
            yield self.violation(turn, f"{_element_name(message)} {what}, but element {reader.next_number} is the next")
        reader.next_number = message.sequence_number + 1
        if takes_credit:
            reader.credit -= 1
            if reader.credit < 0:
                reader.credit = 0
                yield self.violation(turn, f"{_element_name(message)} {what} without credit")


def _element_name(message: BufferResponse) -> str:
    return f"element {message.sequence_number} of subpartition {message.subpartition} of {message.partition_id}"


def _is_forwarded(turn: Turn, message: PartitionRequest) -> bool:
    return any(isinstance(effect, Send) and effect.message == message for effect in turn.effects)
