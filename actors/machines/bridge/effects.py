"""Effects of an attempt's machine: work of the engine, and messages to the Task.

Work of one lane is done in the order in which it was begun; the lanes do not wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flykka.actors.machines.ignore import Ignore
from flykka.messages.state.handles import OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.tasks.bridge import InFlightPart, InFlightRead, StagedOutput
from flykka.messages.tasks.stage import HandleOperatorEvents, ReadSplits, RunStage
from flykka.messages.wire.ids import BatchId
from flykka.messages.wire.message import Message


class Lane(StrEnum):
    """Lanes of work: stages, snapshots and commits, work that must not wait, and the end."""

    STAGES = "stages"
    BACKGROUND = "background"
    AT_ONCE = "at once"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Make the chain ready, with the state of a checkpoint, and read what was in flight."""

    restore: TaskStateSnapshot | None
    recover: tuple[InFlightRead, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Read splits, and take their rows through the chain."""

    command: ReadSplits


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """Take a batch through the chain."""

    command: RunStage


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateState:
    """Take what a stage has made of its batch into the state."""

    stage: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceTo:
    """Fire what the watermark fires, and take the results through the chain."""

    stage: int
    watermark_ms: int
    processing_time_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FireTimers:
    """Fire the timers that processing time has come to, and take the results through the chain."""

    stage: int
    processing_time_ms: int
    watermark_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HandleEvents:
    """Give the function at the head events of its coordinator, and take what it emits through the chain."""

    command: HandleOperatorEvents


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteState:
    """Note the state as it is at a barrier; `watermark_ms` fires with it, None where nothing does.

    What a savepoint holds is all of the state: it shares nothing.
    """

    stage: int
    checkpoint_id: int
    watermark_ms: int | None
    everything: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareCommit:
    """Stage what fires with the checkpoint, and prepare what was staged for it."""

    checkpoint_id: int
    staged: tuple[StagedOutput, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSnapshot:
    """Make the noted state durable."""

    checkpoint_id: int
    savepoint: str | None
    sinks: tuple[OperatorSubtaskState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardSnapshot:
    """Nobody waits for the noted state any more."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldBatches:
    """Add a holder to batches that are in flight."""

    checkpoint_id: int
    batch_ids: tuple[BatchId, ...]
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteInFlight:
    """Make batches in flight durable."""

    checkpoint_id: int
    parts: tuple[InFlightPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Publish what was prepared up to a checkpoint, which is complete."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseChain:
    """Wait until nothing runs any more, and let go of what the attempt holds."""

    cancel: bool


Work = (
    Open
    | Read
    | Process
    | UpdateState
    | AdvanceTo
    | FireTimers
    | HandleEvents
    | NoteState
    | PrepareCommit
    | WriteSnapshot
    | DiscardSnapshot
    | HoldBatches
    | WriteInFlight
    | Commit
    | CloseChain
)
"""Work that the engine answers."""

Survivable = WriteSnapshot | WriteInFlight | HoldBatches
"""Work whose failure fails only its checkpoint, unless the engine says that the attempt cannot go on."""


def lane_of(work: Work) -> Lane:
    """The lane of a piece of work."""
    match work:
        case HoldBatches():
            return Lane.AT_ONCE
        case PrepareCommit() | WriteSnapshot() | DiscardSnapshot() | WriteInFlight() | Commit():
            return Lane.BACKGROUND
        case CloseChain():
            return Lane.END
        case _:
            return Lane.STAGES


def key_of(work: Work) -> str:
    """The key by which an answer finds its piece of work: the same in every run, in any order of work."""
    kind = type(work).__name__
    match work:
        case Open() | CloseChain():
            return kind
        case Read(command=command) | Process(command=command) | HandleEvents(command=command):
            return f"{kind} {command.stage}"
        case UpdateState(stage=stage) | AdvanceTo(stage=stage) | FireTimers(stage=stage):
            return f"{kind} {stage}"
        case HoldBatches(checkpoint_id=checkpoint_id, batch_ids=batch_ids):
            return f"{kind} {checkpoint_id} {' '.join(batch_ids)}"
        case _:
            return f"{kind} {work.checkpoint_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Have the engine do this, and answer with its key; `number` and `what` tell it to others."""

    key: str
    number: int
    work: Work
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TellTask:
    """Tell the Task of this attempt."""

    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Let go of batches that `holder` holds."""

    batch_ids: tuple[BatchId, ...]
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseHeldBy:
    """Let go of all that one holder holds."""

    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelWork:
    """Let nothing new begin, and have what is at work come to an end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptWork:
    """Interrupt what was cancelled and does not end."""


AttemptEffect = Begin | TellTask | Release | ReleaseHeldBy | CancelWork | InterruptWork | Ignore
