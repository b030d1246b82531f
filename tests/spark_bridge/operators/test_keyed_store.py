"""Tests named keyed state on a backend of plain rows: written rows, restored rows, and rows after a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import pytest

from flykka.actors.errors import UnreadableStateError
from flykka.actors.machines.state.keyed_state import Handle, StatePart, restored_keyed_state
from flykka.actors.machines.state.segments import Reading, Segment, Segments, Unwritten
from flykka.messages.state.handles import KeyGroupRange, OperatorSubtaskState, SharedStateHandle
from flykka.messages.wire.ids import BatchId, JobVertexId, OperatorId
from flykka.spark_bridge.operators.keyed_store import KeyedOperator, KeyedStore
from flykka.spark_bridge.state.local_state import LocalState, LocalStates

Numbers = tuple[int, ...]

ALL = KeyGroupRange(start=0, end=9)


@dataclass
class Disk:
    """Files of numbers; writing to a path in `full` fails."""

    files: dict[str, Numbers] = field(default_factory=dict)
    full: set[str] = field(default_factory=set)


class Memory:
    """Implements `Holders`: the holders of segments, some of which are `lost`."""

    def __init__(self) -> None:
        self.held: dict[str, set[BatchId]] = {}
        self.lost: set[BatchId] = set()

    def hold(self, batch_ids: Iterable[BatchId], holder: str) -> None:
        self.held.setdefault(holder, set()).update(batch_ids)

    def release(self, batch_ids: Iterable[BatchId], holder: str) -> None:
        self.held[holder] -= set(batch_ids)
        if not self.held[holder]:
            del self.held[holder]

    def is_whole(self, batch_id: BatchId) -> bool:
        return batch_id not in self.lost


class NumbersBackend:
    """A backend of numbers whose last digit is the key group."""

    merge_at = 3

    def __init__(
        self,
        disk: Disk,
        owned: KeyGroupRange = ALL,
        attempt: str = "attempt",
        local: LocalState[Numbers] | None = None,
    ) -> None:
        self.owned = owned
        self.attempt = attempt
        self.local = local or LocalState("numbers", Memory())
        self.loaded: list[Numbers] = []
        self.held: dict[str, list[BatchId]] = {}
        self.while_merging: Callable[[], object] = lambda: None
        self._disk = disk
        self._kept = count()
        self._in_line: list[Callable[[], None]] = []

    def keep(self, rows: Numbers) -> Segment[Numbers] | None:
        if not rows:
            return None
        return Segment(batch_id=BatchId(f"{self.attempt}-{next(self._kept)}"), frame=rows, rows=len(rows))

    def read(self, readings: Sequence[Reading[Numbers]]) -> Numbers:
        return tuple(number for reading in readings for number in reading.segment.frame)

    def merge(self, rows: Numbers, *, are_oldest: bool) -> Numbers:
        meanwhile, self.while_merging = self.while_merging, lambda: None
        meanwhile()
        return tuple(sorted(rows))

    def load(self, part: StatePart) -> Numbers:
        loaded = tuple(
            number
            for handle, groups in part.handles
            for number in self._disk.files[handle.path]
            if groups is None or groups.start <= number % 10 <= groups.end
        )
        self.loaded.append(loaded)
        return loaded

    def write(
        self, parts: Sequence[tuple[str, Unwritten[Numbers]]], savepoint: str | None
    ) -> Iterator[SharedStateHandle]:
        for state_id, part in parts:
            path = f"{savepoint or 'shared'}/{state_id}"
            if path in self._disk.full:
                raise OSError(path)
            numbers = self._disk.files[path] = self.read(part.readings)
            yield SharedStateHandle(
                state_id=state_id, path=path, rows=len(numbers), size_bytes=len(numbers), key_groups=self.owned
            )

    def delete(self, handle: Handle) -> None:
        del self._disk.files[handle.path]

    def has_memory_for(self, batch_ids: Sequence[BatchId]) -> bool:
        return True

    def hold(self, batch_ids: Sequence[BatchId], holder: str | None = None) -> None:
        if holder is not None:
            self.held[holder] = list(batch_ids)

    def release(self, batch_ids: Sequence[BatchId], holder: str | None = None) -> None:
        if holder is not None:
            del self.held[holder]

    def in_background(self, work: Callable[[], None]) -> None:
        self._in_line.append(work)
        if len(self._in_line) == 1:
            while self._in_line:
                self._in_line[0]()
                del self._in_line[0]

    def check(self) -> None:
        pass


class Sums(KeyedOperator[Numbers, Numbers]):
    def __init__(self, backend: NumbersBackend) -> None:
        self.backend = backend
        names = ("left", "right")
        super().__init__(OperatorId("sums"), {name: KeyedStore(backend, Segments(), name) for name in names})

    def add(self, name: str, *numbers: int) -> None:
        self.stores[name].add(self.backend.keep(numbers))

    def numbers(self, name: str) -> list[int]:
        store = self.stores[name]
        readings, release = store.hold(lambda: [store.segments.reading(each) for each in store.segments.live])
        release()
        return sorted(self.backend.read(readings))

    def complete_checkpoint(self, checkpoint_id: int, savepoint: str | None = None) -> OperatorSubtaskState:
        self.snapshot_state(checkpoint_id, everything=savepoint is not None)
        state = self.write_snapshot(checkpoint_id, savepoint).state
        self.commit_checkpoint(checkpoint_id)
        return state


def restored_sums(
    disk: Disk,
    *states: OperatorSubtaskState,
    owned: KeyGroupRange = ALL,
    local: LocalState[Numbers] | None = None,
) -> Sums:
    sums = Sums(NumbersBackend(disk, owned, "restored", local))
    sums.restore(states)
    sums.read_restored()
    return sums


@pytest.mark.parametrize("savepoint", [None, "savepoint"])
def test_each_state_is_found_by_name(savepoint: str | None) -> None:
    disk = Disk()
    sums = Sums(NumbersBackend(disk))
    sums.add("left", 1, 2)
    sums.add("right", 3)

    state = sums.complete_checkpoint(1, savepoint)
    again = restored_sums(disk, state)

    assert (again.numbers("left"), again.numbers("right")) == ([1, 2], [3])
    assert (bool(state.shared), bool(state.exclusive)) == (savepoint is None, savepoint is not None)


def test_state_of_a_completed_checkpoint_is_not_written_again() -> None:
    disk = Disk()
    sums = Sums(NumbersBackend(disk))
    sums.add("left", 1)
    first = sums.complete_checkpoint(1)
    sums.add("right", 2)

    second = sums.complete_checkpoint(2)

    assert first.shared[0] in second.shared
    assert sorted(disk.files.values()) == [(1,), (2,)]


def test_a_rescaled_subtask_reads_and_rewrites_only_its_own_key_groups() -> None:
    disk = Disk()
    sums = Sums(NumbersBackend(disk))
    sums.add("left", *range(10))
    state = sums.complete_checkpoint(1)
    mine = KeyGroupRange(start=0, end=4)

    again = restored_sums(disk, replace(state, key_groups=mine), owned=mine)
    written = again.complete_checkpoint(2)

    assert again.numbers("left") == [0, 1, 2, 3, 4]
    assert [disk.files[handle.path] for handle in written.shared] == [(0, 1, 2, 3, 4)]


def test_a_partly_failed_snapshot_leaves_no_files_and_holds_no_segments() -> None:
    disk = Disk(full={"shared/attempt-1-1"})
    sums = Sums(NumbersBackend(disk))
    sums.add("left", 1)
    sums.add("right", 2)
    sums.snapshot_state(1, everything=False)

    with pytest.raises(OSError, match="attempt-1-1"):
        sums.write_snapshot(1, None)

    assert (disk.files, sums.backend.held) == ({}, {})
    assert restored_sums(disk, sums.complete_checkpoint(2)).numbers("right") == [2]


def test_merging_many_segments_preserves_the_state() -> None:
    sums = Sums(NumbersBackend(Disk()))

    for number in range(4):
        sums.add("left", number)

    assert len(sums.stores["left"].segments.live) == 2
    assert sums.numbers("left") == list(range(4))


def test_an_error_names_the_state_with_unreadable_bounds() -> None:
    damaged = OperatorSubtaskState(operator_id=OperatorId("sums"), key_groups=ALL, keyed_state=b"\xc1")

    with pytest.raises(UnreadableStateError, match="of the keyed state of operator sums cannot be read"):
        restored_keyed_state([damaged])


def test_state_may_be_added_and_snapshotted_during_a_merge() -> None:
    disk = Disk()
    sums = Sums(NumbersBackend(disk))
    noted: list[OperatorSubtaskState] = []

    def meanwhile() -> None:
        sums.add("left", 4)
        noted.append(sums.complete_checkpoint(1))

    sums.backend.while_merging = meanwhile
    for number in (1, 2, 3):
        sums.add("left", number)
    later = sums.complete_checkpoint(2)

    assert sums.numbers("left") == [1, 2, 3, 4]
    assert [segment.level for segment in sums.stores["left"].segments.live] == [0, 1]
    # The segments to be merged are written separately from the segment beside them, which is not written again.
    assert sorted(disk.files.values()) == [(1, 2, 3), (1, 2, 3), (4,)]
    assert [restored_sums(disk, state).numbers("left") for state in (*noted, later)] == [[1, 2, 3, 4]] * 2


class Restarts:
    """Attempts of one subtask in one process, which still has local copies of checkpoints."""

    def __init__(self) -> None:
        self.disk, self.memory = Disk(), Memory()
        self.local: LocalState[Numbers] = LocalState("numbers", self.memory)
        self.sums = Sums(NumbersBackend(self.disk, local=self.local))

    def restart(self, state: OperatorSubtaskState) -> None:
        self.sums = restored_sums(self.disk, state, local=self.local)

    @property
    def loaded(self) -> list[Numbers]:
        """Return the state that the last attempt read from its checkpoint."""
        return self.sums.backend.loaded


def test_a_restarted_subtask_reuses_remaining_segments() -> None:
    restarts = Restarts()
    restarts.sums.add("left", 1, 2)
    restarts.sums.add("right", 3)
    first = restarts.sums.complete_checkpoint(1)
    restarts.sums.add("left", 4)

    restarts.restart(first)

    assert restarts.loaded == []
    assert (restarts.sums.numbers("left"), restarts.sums.numbers("right")) == ([1, 2], [3])
    second = restarts.sums.complete_checkpoint(2)
    assert {handle.path for handle in second.shared} == {handle.path for handle in first.shared}


def test_only_a_lost_segment_is_read_from_the_checkpoint() -> None:
    restarts = Restarts()
    restarts.sums.add("left", 1)
    restarts.sums.complete_checkpoint(1)
    restarts.sums.add("left", 2)
    second = restarts.sums.complete_checkpoint(2)
    restarts.memory.lost.add(BatchId("attempt-0"))

    restarts.restart(second)

    assert restarts.loaded == [(1,)]
    assert restarts.sums.numbers("left") == [1, 2]
    assert set(restarts.sums.complete_checkpoint(3).shared) == set(second.shared)


def test_segments_merged_since_the_checkpoint_are_still_usable() -> None:
    restarts = Restarts()
    restarts.sums.add("left", 1)
    restarts.sums.add("left", 2)
    state = restarts.sums.complete_checkpoint(1)
    restarts.sums.add("left", 3)
    assert len(restarts.sums.stores["left"].segments.live) == 1

    restarts.restart(state)

    assert restarts.loaded == []
    assert restarts.sums.numbers("left") == [1, 2]


def test_a_subtask_discards_state_of_an_uncompleted_checkpoint() -> None:
    restarts = Restarts()
    restarts.sums.add("left", 1)
    first = restarts.sums.complete_checkpoint(1)
    restarts.sums.add("left", 2)
    restarts.sums.snapshot_state(2, everything=False)
    restarts.sums.write_snapshot(2, None)

    restarts.restart(first)

    assert restarts.loaded == []
    assert restarts.sums.numbers("left") == [1]


def test_segments_of_earlier_checkpoints_are_released_and_those_of_savepoints_never_held() -> None:
    restarts = Restarts()
    for checkpoint_id in (1, 2, 3):
        restarts.sums.add("left", checkpoint_id)
        restarts.sums.complete_checkpoint(checkpoint_id)
    restarts.sums.complete_checkpoint(4, "savepoint")

    assert list(restarts.memory.held) == ["local state of numbers at checkpoint 3"]


def test_a_rescaled_vertex_finds_no_local_segments() -> None:
    memory = Memory()
    states, vertex = LocalStates(memory), JobVertexId("sums")
    before = states.of(vertex, 0, 2)
    before.keep(1, [Segment(batch_id=BatchId("0"), frame=(), rows=1)])
    assert states.of(vertex, 0, 2) is before

    after = states.of(vertex, 0, 1)
    before.keep(2, [Segment(batch_id=BatchId("1"), frame=(), rows=1)])

    assert after is not before
    assert memory.held == {}


def test_no_segments_are_held_if_local_recovery_is_disabled() -> None:
    memory = Memory()
    states = LocalStates(memory, is_on=False)

    local = states.of(JobVertexId("sums"), 0, 1)
    local.keep(1, [Segment(batch_id=BatchId("0"), frame=(), rows=1)])

    assert memory.held == {}
    assert local.find(frozenset({"0"})) == {}
