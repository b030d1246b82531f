"""Values in the commands and answers of an execution attempt."""

from __future__ import annotations

from flykka.messages.state.handles import InFlightRows, KeyGroupRange
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.wire.ids import BatchId, OperatorId
from flykka.messages.wire.message import Value, value


@value("attempt.stage_output")
class StageOutput(Value):
    """A batch for output number `output` of the vertex; its subpartition is in the batch."""

    output: int
    batch: BatchRef


@value("attempt.input_in_flight")
class InputInFlight(Value):
    """A batch on its way into input gate number `gate` of the vertex."""

    gate: int
    batch: BatchRef


@value("attempt.staged_output")
class StagedOutput(Value):
    """Rows that one sink has written: staged under names that only the sink reads; without names, visible at once."""

    operator_id: OperatorId
    names: tuple[str, ...]
    rows: int


@value("attempt.channel_state_part")
class ChannelStatePart(Value):
    """Batches in flight to be written to the folder `path`: those of a gate, or of a subpartition of an output."""

    path: str
    batches: tuple[BatchRef, ...]
    gate: int | None = None
    output: int | None = None
    subpartition: int = 0


@value("attempt.channel_state_read")
class ChannelStateRead(Value):
    """Channel state of a checkpoint, to be read as batch `batch_id` of a gate, or of a subpartition of an output.

    With `key_groups`, only the rows of these are read.
    """

    batch_id: BatchId
    in_flight: InFlightRows
    gate: int | None = None
    output: int | None = None
    subpartition: int = 0
    key_groups: KeyGroupRange | None = None
