"""Which reader gets which split of one source (Flink's SplitEnumerator and the gateways to its subtasks).

Splits go out in the order in which they were found, whole, to the readers in the order in which they asked: one split
per reader and turn, so that a reader with a large appetite does not starve the others. A reader that asks when nothing
is left and nothing more can be found is told so, once.

Between a checkpoint's snapshot of this state and a reader's own part in that checkpoint, nothing is handed to that
reader: its requests wait. So a split is either unassigned in the snapshot or in the reader's state, never both, and no
snapshot, however many overlap, sees a split on its way. What is behind the snapshot has always a later barrier.

Splits that were found stay known for the life of this object. After a restore everything that the checkpoint did not
know as assigned is handed out again, also what was found since; a look at the source that is under way stays good.

Not here: looking for splits, and which attempt a subtask is at.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import assert_never

from flykka.actors.ignore import Ignore
from flykka.messages import codec
from flykka.messages.errors import DecodeError
from flykka.messages.ids import SplitId
from flykka.messages.source import SourceSplit, SplitEnumeratorState

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsFound:
    """A look at the source brought these; `finished` when no look can bring more."""

    splits: tuple[SourceSplit, ...]
    finished: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsRequested:
    """The reader of this subtask can take `count` more splits."""

    subtask: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskSettled:
    """The subtask has acknowledged or declined the checkpoint: its barrier lies behind it, or will never come."""

    subtask: int
    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointGivenUp:
    """The checkpoint was aborted."""

    checkpoint_id: int


SplitEnumeratorEvent = SplitsFound | SplitsRequested | SubtaskSettled | CheckpointGivenUp


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignSplits:
    """Hand these splits to the reader, in this order."""

    subtask: int
    splits: tuple[SourceSplit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalNoMoreSplits:
    """Tell the reader that it has got all it will get."""

    subtask: int


SplitEnumeratorEffect = AssignSplits | SignalNoMoreSplits | Ignore


@dataclass(slots=True)
class _Reader:
    """A subtask: how many splits it waits for, and the checkpoints whose barrier it has yet to pass."""

    wanted: int = 0
    told_no_more: bool = False
    closed_for: tuple[int, ...] = ()


class SplitEnumerator:
    """The splits of one source operator and its readers, subtasks 0 to `parallelism` - 1."""

    def __init__(self, *, parallelism: int) -> None:
        self._readers = [_Reader() for _ in range(parallelism)]
        self._turns: deque[int] = deque()
        self._known: dict[SplitId, SourceSplit] = {}
        self._assigned: dict[SplitId, None] = {}
        self._unassigned: deque[SourceSplit] = deque()
        self._finished = False

    @property
    def seen(self) -> frozenset[SplitId]:
        """What a look at the source need not bring again."""
        return frozenset(self._known) | self._assigned.keys()

    @property
    def discovery_finished(self) -> bool:
        """No look at the source can bring more."""
        return self._finished

    def handle(self, event: SplitEnumeratorEvent, now: int) -> list[SplitEnumeratorEffect]:
        """Take one event; what is to be done about it, in order."""
        match event:
            case SplitsFound():
                return self._on_found(event)
            case SplitsRequested(subtask=subtask, count=count):
                return self._on_requested(subtask, count)
            case SubtaskSettled(subtask=subtask, checkpoint_id=checkpoint_id):
                # Barriers reach a task in the order of their ids: with this one, all before it are settled.
                later = tuple(each for each in self._readers[subtask].closed_for if each > checkpoint_id)
                return self._reopen({subtask: later}, checkpoint_id)
            case CheckpointGivenUp(checkpoint_id=checkpoint_id):
                others = {
                    subtask: tuple(each for each in reader.closed_for if each != checkpoint_id)
                    for subtask, reader in enumerate(self._readers)
                }
                return self._reopen(others, checkpoint_id)
            case _:
                assert_never(event)

    def snapshot(self, checkpoint_id: int) -> bytes:
        """This state as it belongs to the checkpoint; from now on every reader waits until it has settled it."""
        for reader in self._readers:
            reader.closed_for += (checkpoint_id,)
        self._turns.clear()
        state = SplitEnumeratorState(
            unassigned=tuple(self._unassigned), assigned=tuple(self._assigned), finished=self._finished
        )
        return codec.encode(state)

    def restore(self, data: bytes | None) -> None:
        """Go back to a checkpoint's state, or with None to where nothing was assigned. All readers are new ones.

        Raises:
            DecodeError: the bytes are not a state of this class.
        """
        state = _decode(data) if data is not None else SplitEnumeratorState()
        for split in state.unassigned:
            self._known.setdefault(split.split_id, split)
        self._assigned = dict.fromkeys(state.assigned)
        self._unassigned = deque(state.unassigned)
        in_state = {split.split_id for split in state.unassigned} | self._assigned.keys()
        self._unassigned.extend(split for split_id, split in self._known.items() if split_id not in in_state)
        self._finished = self._finished or state.finished
        self._readers = [_Reader() for _ in self._readers]
        self._turns.clear()

    def check(self) -> None:
        """Assert the invariants."""
        waiting = [split.split_id for split in self._unassigned]
        assert len(waiting) == len(set(waiting)), "a split would be handed out twice"
        assert not self._assigned.keys() & set(waiting), "a split is handed out and waits"
        assert self._known.keys() <= self._assigned.keys() | set(waiting), "a split is lost"
        ready = [index for index, reader in enumerate(self._readers) if reader.wanted and not reader.closed_for]
        assert sorted(self._turns) == ready, "a reader waits in vain, or is served while it is closed"
        assert not (self._turns and self._unassigned), "a split and a reader wait for each other"

    def _on_found(self, event: SplitsFound) -> list[SplitEnumeratorEffect]:
        for split in event.splits:
            if split.split_id not in self._known and split.split_id not in self._assigned:
                self._known[split.split_id] = split
                self._unassigned.append(split)
        self._finished = self._finished or event.finished
        return self._serve()

    def _on_requested(self, subtask: int, count: int) -> list[SplitEnumeratorEffect]:
        reader = self._readers[subtask]
        if reader.told_no_more:
            return [Ignore(reason=f"subtask {subtask} knows that there is no more")]
        if count > 0 and not reader.wanted and not reader.closed_for:
            self._turns.append(subtask)
        reader.wanted += max(count, 0)
        return self._serve()

    def _reopen(self, closed_for: dict[int, tuple[int, ...]], checkpoint_id: int) -> list[SplitEnumeratorEffect]:
        """Let the readers go on that wait for no other checkpoint."""
        changed = {subtask: left for subtask, left in closed_for.items() if left != self._readers[subtask].closed_for}
        for subtask, left in changed.items():
            reader = self._readers[subtask]
            reader.closed_for = left
            if not left and reader.wanted:
                self._turns.append(subtask)
        return self._serve() if changed else [Ignore(reason=f"nobody waits for checkpoint {checkpoint_id}")]

    def _serve(self) -> list[SplitEnumeratorEffect]:
        handed: dict[int, list[SourceSplit]] = {}
        while self._turns and self._unassigned:
            subtask, split = self._turns.popleft(), self._unassigned.popleft()
            self._assigned[split.split_id] = None
            handed.setdefault(subtask, []).append(split)
            reader = self._readers[subtask]
            reader.wanted -= 1
            if reader.wanted:
                self._turns.append(subtask)
        effects: list[SplitEnumeratorEffect] = [
            AssignSplits(subtask=subtask, splits=tuple(splits)) for subtask, splits in handed.items()
        ]
        return effects + self._signal_no_more()

    def _signal_no_more(self) -> list[SplitEnumeratorEffect]:
        if not self._finished or self._unassigned:
            return []
        told = tuple(self._turns)
        self._turns.clear()
        for subtask in told:
            self._readers[subtask].wanted = 0
            self._readers[subtask].told_no_more = True
        return [SignalNoMoreSplits(subtask=subtask) for subtask in told]


def _decode(data: bytes) -> SplitEnumeratorState:
    state = codec.decode(data)
    if not isinstance(state, SplitEnumeratorState):
        raise DecodeError(f"a split enumerator cannot be restored from a {type(state).__name__}")
    return state
