"""All inputs of a task as one: channels are numbered across the gates, gates with data take turns.

Follows Flink's UnionInputGate. Effects and elements carry the task-wide channel number.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from flykka.actors.exchange.barriers import BarrierAnnouncement
from flykka.actors.exchange.effects import ChannelFailed, GateEffect
from flykka.actors.exchange.input_gate import (
    EXCLUSIVE_CREDIT,
    FLOATING_CREDIT,
    EndOfDataStatus,
    InputGate,
    turn_away,
)
from flykka.actors.ignore import Ignore
from flykka.messages.exchange import BacklogAnnouncement, Buffer, BufferResponse, ErrorResponse, TaskBuffers
from flykka.messages.ids import ResultPartitionId
from flykka.messages.ref import Ref
from flykka.messages.task import InputGateDescriptor


class UnionInputGate:
    """The gates of one task. A task without inputs has none, and is finished from the start."""

    __slots__ = (
        "_gate_of_channel",
        "_gate_of_subpartition",
        "_not_finished",
        "_priority_turns",
        "_turns",
        "channel_count",
        "gates",
    )

    def __init__(
        self,
        descriptors: Sequence[InputGateDescriptor],
        exclusive_credit: int = EXCLUSIVE_CREDIT,
        floating_credit: int = FLOATING_CREDIT,
        *,
        buffers: TaskBuffers | None = None,
    ) -> None:
        gates: list[InputGate] = []
        channels = 0
        for number, descriptor in enumerate(descriptors):
            floating = floating_credit if buffers is None else buffers.floating[number]
            exclusive = exclusive_credit if buffers is None else buffers.exclusive
            gates.append(InputGate(descriptor, exclusive, floating, first_channel=channels))
            channels += len(descriptor.channels)
        self.gates = tuple(gates)
        self.channel_count = channels
        self._gate_of_channel = [gate for gate in gates for _ in gate.channels]
        self._gate_of_subpartition = {key: gate for gate in gates for key in gate.subpartitions}
        assert len(self._gate_of_subpartition) == channels, "two gates of a task read the same subpartition"
        self._turns: OrderedDict[InputGate, None] = OrderedDict()
        self._priority_turns: OrderedDict[InputGate, None] = OrderedDict()
        self._not_finished = sum(not gate.is_finished for gate in gates)

    @property
    def failure(self) -> ChannelFailed | None:
        """The first failure of a channel, if there is one."""
        return next((gate.failure for gate in self.gates if gate.failure is not None), None)

    @property
    def has_data(self) -> bool:
        """Something can be read now."""
        return bool(self._turns)

    @property
    def has_priority(self) -> bool:
        """Something that overtakes data can be read now."""
        return bool(self._priority_turns)

    @property
    def is_finished(self) -> bool:
        """The end of every channel has been read."""
        return self._not_finished == 0

    @property
    def end_of_data_status(self) -> EndOfDataStatus:
        """One gate that has data left, or stops without draining, decides for all."""
        statuses = {gate.end_of_data_status for gate in self.gates}
        for status in (EndOfDataStatus.NOT_END_OF_DATA, EndOfDataStatus.STOPPED):
            if status in statuses:
                return status
        return EndOfDataStatus.DRAINED

    def resize(self, floating: Sequence[int]) -> list[GateEffect]:
        """Each gate has another number of floating credits from now on."""
        return [effect for gate, size in zip(self.gates, floating, strict=True) for effect in gate.resize(size)]

    @property
    def buffers_in_use(self) -> int:
        """Batches that have arrived and are not yet processed."""
        return sum(gate.buffers_in_use for gate in self.gates)

    def gate_of(self, channel: int) -> int:
        """The number of the gate that `channel` belongs to."""
        return self._gate_of_channel[channel].gate

    def request_partitions(self) -> list[GateEffect]:
        """Ask for every subpartition; called once, when the task runs."""
        return [effect for gate in self.gates for effect in gate.request_partitions()]

    def retry(self, channel: int) -> list[GateEffect]:
        """The delay of a `RetryRequest` is over."""
        return self._gate_of_channel[channel].retry(channel)

    def on_buffer(self, response: BufferResponse) -> list[GateEffect]:
        """The next element of a channel has arrived."""
        gate = self._reader(response.partition_id, response.subpartition)
        if gate is None:
            return turn_away(response)
        effects = gate.on_buffer(response)
        self._take_turn(gate)
        return effects

    def on_backlog(self, announcement: BacklogAnnouncement) -> list[GateEffect]:
        """Data waits for credit at a producer."""
        gate = self._reader(announcement.partition_id, announcement.subpartition)
        return [Ignore(reason="a backlog that no gate waits for")] if gate is None else gate.on_backlog(announcement)

    def on_connection_failed(self, task_manager: Ref) -> list[GateEffect]:
        """A TaskManager is gone: channels that wait for its answer fail."""
        effects: list[GateEffect] = []
        for gate in self.gates:
            effects += gate.on_connection_failed(task_manager)
            self._take_turn(gate)
        return effects

    def on_error(self, response: ErrorResponse) -> list[GateEffect]:
        """A subpartition cannot be had, for now or at all."""
        gate = self._reader(response.partition_id, response.subpartition)
        if gate is None:
            return [Ignore(reason="an error of a subpartition that no gate reads")]
        effects = gate.on_error(response)
        self._take_turn(gate)
        return effects

    def poll(self) -> tuple[int, Buffer | BarrierAnnouncement] | None:
        """The next element and its channel, turn by turn; None while there is none."""
        if not self._turns:
            return None
        gate = next(iter(self._priority_turns or self._turns))
        self._turns.pop(gate, None)
        was_finished = gate.is_finished
        element = gate.poll()
        self._not_finished -= gate.is_finished and not was_finished
        self._take_turn(gate)
        return element

    def credit_returned(self, channel: int) -> list[GateEffect]:
        """The oldest batch read from `channel` is processed."""
        return self._gate_of_channel[channel].credit_returned(channel)

    def block(self, channel: int) -> None:
        """Do not read from `channel` until `unblock_all`."""
        gate = self._gate_of_channel[channel]
        gate.block(channel)
        self._take_turn(gate)

    def unblock_all(self) -> None:
        """Read from every channel again."""
        for gate in self.gates:
            gate.unblock_all()
            self._take_turn(gate)

    def prioritize(self, channel: int, checkpoint_id: int) -> None:
        """Let the barrier that was announced in `channel` overtake the data before it."""
        gate = self._gate_of_channel[channel]
        gate.prioritize(channel, checkpoint_id)
        self._take_turn(gate)

    def start_persisting(self, checkpoint_id: int) -> list[GateEffect]:
        """A checkpoint is taken before its barrier has come through all channels: what is in flight."""
        return [effect for gate in self.gates for effect in gate.start_persisting(checkpoint_id)]

    def stop_persisting(self) -> None:
        """Nothing that arrives is part of a checkpoint."""
        for gate in self.gates:
            gate.stop_persisting()

    def check(self) -> None:
        """Assert that the turns agree with what the gates hold."""
        for gate in self.gates:
            gate.check()
            assert (gate in self._turns) == gate.has_data
            assert (gate in self._priority_turns) == gate.has_priority
        assert self._not_finished == sum(not gate.is_finished for gate in self.gates)

    def _reader(self, partition_id: ResultPartitionId, subpartition: int) -> InputGate | None:
        return self._gate_of_subpartition.get((partition_id, subpartition))

    def _take_turn(self, gate: InputGate) -> None:
        if gate.has_data:
            self._turns.setdefault(gate)
        else:
            self._turns.pop(gate, None)
        if gate.has_priority:
            self._priority_turns.setdefault(gate)
        else:
            self._priority_turns.pop(gate, None)
