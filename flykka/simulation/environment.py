"""State that outlives the attempts of a simulation: files, batches, commits, and planned faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, Self

from flykka.actors.checkpoint_storage.format import unpacked
from flykka.actors.errors import UnknownBatchError
from flykka.actors.machines.attempt.batches import IN_TRANSIT, KEPT, Address, BatchHolders
from flykka.actors.machines.state.handles import snapshots
from flykka.actors.machines.state.operator_state import elements_of
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint
from flykka.messages.state.handles import COMMITTABLES, ExclusiveStateHandle, FileDigest, PendingFile
from flykka.messages.tasks.exchange import BatchRef
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.codec import decode
from flykka.messages.wire.ids import BatchId, ExecutionAttemptId, JobId, JobVertexId, ResultPartitionId
from flykka.messages.wire.message import Value
from flykka.simulation.operators import Program
from flykka.simulation.rows import Rows
from flykka.simulation.storage import PROTOCOL, File, SimulatedStorage
from flykka.spark_bridge.state.local_state import LocalStates


@dataclass(slots=True)
class FaultSpec:
    failing_stages: Counter[JobVertexId] = field(default_factory=Counter)
    """The number of stages of each vertex that fail next."""
    slow_ms: dict[JobVertexId, int] = field(default_factory=dict)
    """Milliseconds by which the next stage of each vertex is delayed."""

    def stage_fails(self, vertex_id: JobVertexId) -> bool:
        if not self.failing_stages[vertex_id]:
            return False
        self.failing_stages[vertex_id] -= 1
        return True

    def delay_ms(self, vertex_id: JobVertexId) -> int:
        """Return the delay of the current stage in milliseconds."""
        return self.slow_ms.pop(vertex_id, 0)


class RunningAttempt(Protocol):
    """The interface of an attempt for ending it, and for finding its predecessor."""

    descriptor: TaskDeploymentDescriptor

    def revoke(self, why: str) -> None: ...


@dataclass(slots=True)
class Environment:
    """The environment of one simulation. Implements `Files`. `violations` are those that the data plane has found."""

    name: str
    storage: SimulatedStorage
    program: Program
    stage_ms: tuple[int, ...]
    """The possible durations of stages and background work in milliseconds."""
    local_recovery: bool = True
    batches: dict[JobId, Batches] = field(default_factory=dict)
    local_states: dict[JobId, LocalStates] = field(default_factory=dict)
    faults: FaultSpec = field(default_factory=FaultSpec)
    violations: list[str] = field(default_factory=list)
    late_rows: int = 0
    attempts: dict[JobId, list[RunningAttempt]] = field(default_factory=dict)
    deleted_jobs: dict[str, dict[str, File]] = field(default_factory=dict)
    """The files that existed in the folder of a job when the folder was deleted."""
    acknowledged: dict[JobId, set[str]] = field(default_factory=dict)
    """The paths of acknowledged state that belongs to a single checkpoint, by job."""
    _committable: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.storage.on_finalised = self._on_finalised
        self.storage.on_deletion = self._on_deletion

    @property
    def root(self) -> str:
        return f"{PROTOCOL}://{self.name}"

    def batches_of(self, job_id: JobId) -> Batches:
        return self.batches.setdefault(job_id, Batches())

    def local_states_of(self, job_id: JobId) -> LocalStates:
        return self.local_states.setdefault(job_id, LocalStates(SimulatedSegments(), is_on=self.local_recovery))

    def path(self, address: str) -> str:
        return address.removeprefix(f"{PROTOCOL}://")

    def publish(self, file: PendingFile) -> None:
        target, staged = self.path(file.target), self.path(file.staged)
        if file.target not in self._committable:
            self.violations.append(f"{file.target} is published, but no complete checkpoint contains it")
        if target in self.storage.files:
            if staged in self.storage.files:
                self.storage.delete(staged)
            return
        self.storage.rename(staged, target)

    def published(self, sink: str) -> Rows:
        files = self.storage.below(f"{self.name}/output/{sink}")
        return tuple(row for path in files for row in self.storage.read_rows(path))

    def discard(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.storage.delete(self.path(path))

    def qualified(self, path: str) -> str:
        """Return the address unchanged, because it has a scheme."""
        return path

    def exists(self, path: str) -> bool:
        return bool(self.storage.below(self.path(path)))

    def copy(self, source: str, target: str) -> None:
        self.storage.write(self.path(target), self.storage.read(self.path(source)))

    def delete(self, path: str) -> None:
        if self.exists(path):
            self.discard([path])

    @property
    def filesystem(self) -> Self:
        return self

    def seal(self, folder: str, within: str) -> tuple[FileDigest, ...]:
        """Return no digests, because simulated files are never damaged."""
        return ()

    def verify(self, handles: Iterable[ExclusiveStateHandle]) -> None: ...

    def bytes_below(self, folder: str) -> int:
        return sum(self.storage.size(path) for path in self.storage.below(self.path(folder)))

    def _on_deletion(self, path: str) -> None:
        if path.count("/") == 2 and path.startswith(f"{self.name}/checkpoints/"):
            self.deleted_jobs[path] = {each: self.storage.files[each] for each in self.storage.below(path)}

    def _on_finalised(self, path: str, data: bytes) -> None:
        if not path.endswith("/_metadata"):
            return
        for snapshot in snapshots(checkpoint_of(path, data)):
            pieces = elements_of(snapshot.operators if snapshot else (), COMMITTABLES, Value)
            self._committable.update(piece.target for piece in pieces if isinstance(piece, PendingFile))


def checkpoint_of(path: str, data: File) -> CompletedCheckpoint:
    assert isinstance(data, bytes), f"{path} is not a metadata file"
    checkpoint = decode(unpacked(path, data))
    assert isinstance(checkpoint, CompletedCheckpoint)
    return checkpoint


class SimulatedSegments:
    """Implements `Holders`: the rows of a segment exist as long as they are referenced.

    For later attempts every other segment counts as lost, so that some state is local and some has to be read.
    """

    def hold(self, batch_ids: Iterable[BatchId], holder: str) -> None: ...

    def release(self, batch_ids: Iterable[BatchId], holder: str) -> None: ...

    def is_whole(self, batch_id: BatchId) -> bool:
        """Return True for segments with even numbers."""
        return int(batch_id.rpartition("-")[2]) % 2 == 0


class Batches:
    """The batches of one job, whose holders follow the rules of the real data plane.

    The reason of each release is recorded. If a batch is read later, `read_after_release` gets an entry, which is a
    violation, unless the attempts involved are ending.
    """

    def __init__(self) -> None:
        self._held: BatchHolders[Rows] = BatchHolders()
        self._gone_with: dict[BatchId, str] = {}
        self._made_by: dict[BatchId, ExecutionAttemptId] = {}
        self._cancelled: set[ExecutionAttemptId] = set()
        self.read_after_release: list[str] = []

    def put(
        self,
        ref: BatchRef,
        rows: Rows,
        *,
        producer: ExecutionAttemptId,
        address: Address | None,
        holder: str = IN_TRANSIT,
    ) -> None:
        """Add a batch. Its reader holds it or, if it is retained, all its readers."""
        self._made_by[ref.batch_id] = producer
        self._held.put(ref.batch_id, rows, producer=producer, address=address, holder=holder)

    def claim(self, batch_id: BatchId, reader: str) -> Rows:
        """Return the rows of a batch. `reader` replaces the batch's address as a holder. Raises `UnknownBatchError`."""
        try:
            return self._held.claim(batch_id, reader)
        except UnknownBatchError:
            why = self._gone_with.get(batch_id, "no attempt has produced it")
            # A checkpoint may have held the batch after the end of its producer.
            is_expected = why.endswith("has ended") or self._made_by.get(batch_id) in self._cancelled
            if not is_expected:
                self.read_after_release.append(
                    f"{reader} reads {batch_id}: {why or 'all its holders have released it'}"
                )
            raise

    def rows(self, batch_id: BatchId) -> Rows:
        return self._held.content(batch_id)

    def hold(self, batch_ids: Iterable[BatchId], holder: str) -> None:
        self._held.hold(batch_ids, holder)

    def release(self, batch_ids: Iterable[BatchId], holder: str) -> None:
        """Release batches. Batches that are already released, or that `holder` does not hold, are skipped."""
        self._note(self._held.release(batch_ids, holder))

    def release_held_by(self, holder: str) -> None:
        self._note(self._held.release_held_by(holder))

    def release_attempt(
        self, attempt: ExecutionAttemptId, addresses: frozenset[Address], *, is_cancelled: bool
    ) -> None:
        """Release the batches of an ended attempt. The output of a finished attempt stays readable."""
        if is_cancelled:
            self._cancelled.add(attempt)
        released = self._held.release_attempt(attempt, addresses, is_cancelled=is_cancelled)
        self._note(released, f"{attempt} has ended" if is_cancelled else "")

    def release_produced(self, producer: ExecutionAttemptId) -> None:
        self._note(self._held.release_produced(producer), f"{producer} has ended")

    def release_partitions(self, partition_ids: Iterable[ResultPartitionId]) -> None:
        self._note(self._held.release_partitions(frozenset(partition_ids)))

    def unreleased(self) -> list[BatchId]:
        """Return the batches that are still held, except those that are retained until the job ends."""
        return [batch_id for batch_id, holders in self._held.holders().items() if holders != {KEPT}]

    def release_all(self) -> None:
        self._note(self._held.release_all(), "its job has ended")

    def _note(self, released: Iterable[BatchId], why: str = "") -> None:
        self._gone_with.update(dict.fromkeys(released, why))
