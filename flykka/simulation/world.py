"""State that outlives the attempts of a simulation: files, batches, commits, and faults to come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, Self

from flykka.actors.checkpoint_storage.format import unpacked
from flykka.actors.machines.state.handles import snapshots
from flykka.actors.machines.state.operator_state import elements_of
from flykka.messages.checkpointing.metadata import CompletedCheckpoint
from flykka.messages.state.file_digest import FileDigest
from flykka.messages.state.handles import ExclusiveStateHandle
from flykka.messages.state.operator_state import COMMITTABLES, PendingFile
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.codec import decode
from flykka.messages.wire.ids import JobId, JobVertexId
from flykka.messages.wire.message import Value
from flykka.simulation.batches import Batches, Segments
from flykka.simulation.operators import Program
from flykka.simulation.rows import Rows
from flykka.simulation.storage import PROTOCOL, File, Storage
from flykka.spark_bridge.state.local_state import LocalStates


@dataclass(slots=True)
class Trouble:
    """Faults of the data plane that have yet to happen."""

    failing_stages: Counter[JobVertexId] = field(default_factory=Counter)
    """So many stages of each vertex fail next."""
    slow_ms: dict[JobVertexId, int] = field(default_factory=dict)
    """The next stage of each vertex takes that much longer."""

    def stage_fails(self, vertex_id: JobVertexId) -> bool:
        """True if the stage at hand fails."""
        if not self.failing_stages[vertex_id]:
            return False
        self.failing_stages[vertex_id] -= 1
        return True

    def delay_ms(self, vertex_id: JobVertexId) -> int:
        """The delay of the stage at hand beside its own time."""
        return self.slow_ms.pop(vertex_id, 0)


class RunningAttempt(Protocol):
    """As much of an attempt as has to be known to end it, and to know whose place another one takes."""

    descriptor: TaskDeploymentDescriptor

    def revoke(self, why: str) -> None:
        """The attempt is over, where it has not ended."""


@dataclass(slots=True)
class World:
    """The world of one simulation; implements `Files`. `violations` are those that the data plane has seen."""

    name: str
    storage: Storage
    program: Program
    stage_ms: tuple[int, ...]
    """Durations that stages, and the work behind them, may take."""
    local_recovery: bool = True
    batches: dict[JobId, Batches] = field(default_factory=dict)
    local_states: dict[JobId, LocalStates] = field(default_factory=dict)
    trouble: Trouble = field(default_factory=Trouble)
    violations: list[str] = field(default_factory=list)
    late_rows: int = 0
    attempts: dict[JobId, list[RunningAttempt]] = field(default_factory=dict)
    deleted_jobs: dict[str, dict[str, File]] = field(default_factory=dict)
    """The files that were still there when the folder of a job was deleted as a whole."""
    acknowledged: dict[JobId, set[str]] = field(default_factory=dict)
    """Paths of acknowledged state that belongs to one checkpoint alone."""
    _committable: set[str] = field(default_factory=set)
    """The final names of files that a durable checkpoint has held."""

    def __post_init__(self) -> None:
        self.storage.on_finalised = self._on_finalised
        self.storage.on_deletion = self._on_deletion

    @property
    def root(self) -> str:
        """The address of everything."""
        return f"{PROTOCOL}://{self.name}"

    def batches_of(self, job_id: JobId) -> Batches:
        """The batches of one job."""
        return self.batches.setdefault(job_id, Batches())

    def local_states_of(self, job_id: JobId) -> LocalStates:
        """The state of one job's checkpoints that is still there."""
        return self.local_states.setdefault(job_id, LocalStates(Segments(), is_on=self.local_recovery))

    def path(self, address: str) -> str:
        """An address as the storage has it."""
        return address.removeprefix(f"{PROTOCOL}://")

    def publish(self, file: PendingFile) -> None:
        """Give a staged file its final name, unless that has been done. Raises `OSError`, `FileNotFoundError`."""
        target, staged = self.path(file.target), self.path(file.staged)
        if file.target not in self._committable:
            self.violations.append(f"{file.target} is published, and no checkpoint that holds it is complete")
        if target in self.storage.files:
            if staged in self.storage.files:
                self.storage.delete(staged)
            return
        self.storage.rename(staged, target)

    def published(self, sink: str) -> Rows:
        """The rows that readers of a sink's output see."""
        files = self.storage.below(f"{self.name}/output/{sink}")
        return tuple(row for path in files for row in self.storage.read_rows(path))

    def discard(self, paths: Iterable[str]) -> None:
        """Delete files and folders. Raises `OSError`."""
        for path in paths:
            self.storage.delete(self.path(path))

    # As savepoints see the storage

    def qualified(self, path: str) -> str:
        """The address as it is: it has its scheme."""
        return path

    def exists(self, path: str) -> bool:
        """True if there is a file or a folder."""
        return bool(self.storage.below(self.path(path)))

    def copy(self, source: str, target: str) -> None:
        """Copy a file. Raises `OSError`."""
        self.storage.write(self.path(target), self.storage.read(self.path(source)))

    def delete(self, path: str) -> None:
        """Delete what is there. Raises `OSError`."""
        if self.exists(path):
            self.discard([path])

    @property
    def filesystem(self) -> Self:
        """Itself."""
        return self

    def seal(self, folder: str, within: str) -> tuple[FileDigest, ...]:
        """Return no digests: nothing is damaged here, and nothing outlives the process."""
        return ()

    def verify(self, handles: Iterable[ExclusiveStateHandle]) -> None:
        """Compare nothing."""

    def bytes_below(self, folder: str) -> int:
        """The size of the files in a folder."""
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
    """The checkpoint in the metadata file at `path`."""
    assert isinstance(data, bytes), f"{path} is no metadata"
    checkpoint = decode(unpacked(path, data))
    assert isinstance(checkpoint, CompletedCheckpoint)
    return checkpoint
