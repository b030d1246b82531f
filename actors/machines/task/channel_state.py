"""Collects the batches that barriers of unaligned checkpoints have overtaken, until all of them are known.

Inputs are complete when the barriers of all channels are here, outputs when the own barrier went down. Until then, and
until it is written, the bridge holds each batch; then it is told to write them. Follows Flink's ChannelStateWriter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from flykka.actors.machines.task.effects import TellBridge
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.stage import HoldInFlight, InputInFlight, StageOutput, WriteChannelState


@dataclass(slots=True)
class _ChannelState:
    inputs: list[InputInFlight] = field(default_factory=list)
    outputs: list[StageOutput] = field(default_factory=list)
    inputs_complete: bool = False
    outputs_complete: bool = False


class ChannelStateWriter:
    """Batches in flight by checkpoint. What comes for a checkpoint that is not being taken is nobody's state."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[int, _ChannelState] = {}

    def start(self, checkpoint_id: int) -> None:
        """The checkpoint is being taken."""
        self._open[checkpoint_id] = _ChannelState()

    def abort(self, checkpoint_id: int) -> None:
        """The checkpoint is not going to happen; the bridge lets go of what it holds when it hears of that."""
        self._open.pop(checkpoint_id, None)

    def add_inputs(self, checkpoint_id: int, inputs: Iterable[InputInFlight]) -> list[TellBridge]:
        """Batches on their way into the task are part of the checkpoint."""
        state, added = self._open.get(checkpoint_id), tuple(inputs)
        if state is None:
            return []
        state.inputs += added
        return _hold(checkpoint_id, [entry.batch for entry in added])

    def finish_inputs(self, checkpoint_id: int) -> list[TellBridge]:
        """The barriers of all channels are here."""
        if (state := self._open.get(checkpoint_id)) is not None:
            state.inputs_complete = True
        return self._write(checkpoint_id)

    def finish_outputs(self, checkpoint_id: int, overtaken: Iterable[StageOutput]) -> list[TellBridge]:
        """The barrier went down and has overtaken these."""
        state = self._open.get(checkpoint_id)
        if state is None:
            return []
        state.outputs += overtaken
        state.outputs_complete = True
        return _hold(checkpoint_id, [entry.batch for entry in state.outputs]) + self._write(checkpoint_id)

    def _write(self, checkpoint_id: int) -> list[TellBridge]:
        state = self._open.get(checkpoint_id)
        if state is None or not (state.inputs_complete and state.outputs_complete):
            return []
        del self._open[checkpoint_id]
        inputs, outputs = tuple(state.inputs), tuple(state.outputs)
        return [TellBridge(message=WriteChannelState(checkpoint_id=checkpoint_id, inputs=inputs, outputs=outputs))]


def _hold(checkpoint_id: int, batches: list[BatchRef]) -> list[TellBridge]:
    if not batches:
        return []
    batch_ids = tuple(batch.batch_id for batch in batches)
    return [TellBridge(message=HoldInFlight(checkpoint_id=checkpoint_id, batch_ids=batch_ids))]
