"""Partitions connected to a gate: no buffer is lost, duplicated, reordered or sent without credit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from flykka.actors.machines.effects import Tell
from flykka.actors.machines.exchange.checkpoint_barrier_handler import BarrierAnnouncement
from flykka.actors.machines.exchange.effects import GateEffect, PartitionEffect, RequestPartition
from flykka.actors.machines.exchange.input_gate import InputGate
from flykka.actors.machines.exchange.result_partition import ResultPartition
from flykka.messages.tasks.exchange import (
    AddCredit,
    BacklogAnnouncement,
    BatchRef,
    Buffer,
    BufferResponse,
    EndOfPartition,
    Watermark,
)
from tests.actors.machines.exchange.builders import CONSUMER, batch_ref, gate_descriptor, partition, partition_id

CHANNELS = 3
PRODUCERS = [partition_id(channel) for channel in range(CHANNELS)]

SOME_CHANNEL = st.integers(0, CHANNELS - 1)
A_FEW = st.integers(1, 6)

ToGate = BufferResponse | BacklogAnnouncement
ToProducer = RequestPartition | AddCredit


class Exchange(RuleBasedStateMachine):
    """Three producers and one gate, with a message queue in each direction of every channel."""

    @initialize(exclusive=st.integers(1, 4), floating=st.integers(0, 4), queued=st.integers(2, 12))
    def begin(self, exclusive: int, floating: int, queued: int) -> None:
        self.exclusive = exclusive
        self.bound = CHANNELS * exclusive + floating
        self.gate = InputGate([gate_descriptor(CHANNELS)], exclusive, floating)
        self.outputs: list[ResultPartition] = [partition(producer=producer) for producer in range(CHANNELS)]
        self.to_gate: list[deque[ToGate]] = [deque() for _ in range(CHANNELS)]
        self.to_producer: list[deque[ToProducer]] = [deque() for _ in range(CHANNELS)]
        self.made: list[list[Buffer]] = [[] for _ in range(CHANNELS)]
        self.read: list[list[Buffer]] = [[] for _ in range(CHANNELS)]
        self.blocked: set[int] = set()
        self.in_processing: list[int] = []
        self.ended: set[int] = set()
        for channel in range(CHANNELS):
            self.make_batches(channel, queued)
        self._post_to_producers(self.gate.request_partitions())

    @rule(channel=SOME_CHANNEL, count=A_FEW)
    def make_batches(self, channel: int, count: int) -> None:
        for _ in range(0 if channel in self.ended else count):
            made = batch_ref(f"{channel}.{len(self.made[channel])}")
            self.made[channel].append(made)
            self._post_to_gate(channel, self.outputs[channel].add_batch(made))

    @rule(channel=SOME_CHANNEL)
    def make_event(self, channel: int) -> None:
        if channel not in self.ended:
            event = Watermark(timestamp_ms=len(self.made[channel]))
            self.made[channel].append(event)
            self._post_to_gate(channel, self.outputs[channel].broadcast_event(event))

    @precondition(lambda self: len(self.made[0]) > 5)
    @rule()
    def end_the_first_channel(self) -> None:
        self._end(0)

    @rule(channel=SOME_CHANNEL, count=A_FEW)
    def deliver_to_gate(self, channel: int, count: int) -> None:
        mailbox = self.to_gate[channel]
        for _ in range(min(count, len(mailbox))):
            match mailbox.popleft():
                case BufferResponse() as response:
                    self._post_to_producers(self.gate.on_buffer(response))
                case BacklogAnnouncement() as announcement:
                    self._post_to_producers(self.gate.on_backlog(announcement))

    @rule(channel=SOME_CHANNEL, count=A_FEW)
    def deliver_to_producer(self, channel: int, count: int) -> None:
        mailbox = self.to_producer[channel]
        for _ in range(min(count, len(mailbox))):
            match mailbox.popleft():
                case RequestPartition(credit=credit):
                    self._post_to_gate(channel, self.outputs[channel].request(0, credit, CONSUMER))
                case AddCredit(credit=credit):
                    self._post_to_gate(channel, self.outputs[channel].add_credit(0, credit))

    @rule(count=A_FEW)
    def poll(self, count: int) -> None:
        for _ in range(count):
            element = self.gate.poll()
            if element is not None:
                channel, buffer = element
                assert channel not in self.blocked
                assert not isinstance(buffer, BarrierAnnouncement)
                self.read[channel].append(buffer)
                if isinstance(buffer, BatchRef):
                    self.in_processing.append(channel)

    @rule(count=A_FEW)
    def process(self, count: int) -> None:
        for _ in range(min(count, len(self.in_processing))):
            self._post_to_producers(self.gate.credit_returned(self.in_processing.pop(0)))

    @rule(floating=st.integers(0, 4))
    def share_out_again(self, floating: int) -> None:
        # Buffers lent beyond the new size have not returned yet.
        self.bound = max(self.bound, CHANNELS * self.exclusive + floating)
        self._post_to_producers(self.gate.resize([floating]))

    @rule(channel=SOME_CHANNEL)
    def block(self, channel: int) -> None:
        # A task blocks channels that have delivered a barrier, but never all open channels.
        if len(self.blocked | {channel}) < CHANNELS:
            self.blocked.add(channel)
            self.gate.block(channel)

    @rule()
    def unblock_all(self) -> None:
        self.blocked.clear()
        self.gate.unblock_all()

    @invariant()
    def every_channel_is_read_as_it_was_made(self) -> None:
        for read, made in zip(self.read, self.made, strict=True):
            assert read == made[: len(read)]

    @invariant()
    def batches_in_flight_are_bounded_by_the_credits(self) -> None:
        on_the_way = sum(_is_batch(message) for mailbox in self.to_gate for message in mailbox)
        queued = sum(isinstance(b, BatchRef) for channel in self.gate.channels for b in channel.queue)
        assert on_the_way + queued + len(self.in_processing) <= self.bound

    @invariant()
    def the_parts_hold_their_invariants(self) -> None:
        assert self.gate.failure is None
        self.gate.check()
        for output in self.outputs:
            output.check()

    def teardown(self) -> None:
        """Deliver all messages: blocked channels do not block others, and no message remains undelivered."""
        self._run_dry()
        for channel in set(range(CHANNELS)) - self.blocked:
            assert self.read[channel] == self.made[channel]
        self.unblock_all()
        for channel in range(CHANNELS):
            self._end(channel)
        self._run_dry()
        assert self.read == self.made
        assert self.gate.is_finished
        assert self.gate.floating[0].free == self.gate.floating[0].size

    def _run_dry(self) -> None:
        while self._can_go_on():
            for channel in range(CHANNELS):
                self.deliver_to_producer(channel, 1)
                self.deliver_to_gate(channel, 1)
            self.poll(1)
            self.process(1)
            self.the_parts_hold_their_invariants()

    def _end(self, channel: int) -> None:
        if channel not in self.ended:
            self.ended.add(channel)
            self.made[channel].append(EndOfPartition())
            self._post_to_gate(channel, self.outputs[channel].finish())

    def _can_go_on(self) -> bool:
        return any(self.to_gate) or any(self.to_producer) or self.gate.has_data or bool(self.in_processing)

    def _post_to_gate(self, channel: int, effects: Iterable[PartitionEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Tell):
                assert isinstance(effect.message, ToGate)
                self.to_gate[channel].append(effect.message)

    def _post_to_producers(self, effects: Iterable[GateEffect]) -> None:
        for effect in effects:
            match effect:
                case RequestPartition(channel=channel):
                    self.to_producer[channel].append(effect)
                case Tell(message=AddCredit() as credit):
                    self.to_producer[PRODUCERS.index(credit.partition_id)].append(credit)
                case _:
                    raise AssertionError(f"nothing goes wrong in here, and yet: {effect}")


def _is_batch(message: ToGate) -> bool:
    return isinstance(message, BufferResponse) and isinstance(message.buffer, BatchRef)


@pytest.mark.slow
def test_every_channel_is_read_in_order_within_its_credits() -> None:
    run_state_machine_as_test(Exchange, settings=settings(max_examples=100, stateful_step_count=50))
