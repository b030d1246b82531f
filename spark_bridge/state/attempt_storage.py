"""The storage of an attempt: batches in the job's store for its state, and files in checkpoint storage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flykka.spark_bridge.state.file_digests import StateFiles
from flykka.spark_bridge.state.managed_memory import ManagedMemory

if TYPE_CHECKING:
    from flykka.messages.tasks.task import TaskDeploymentDescriptor
    from flykka.spark_bridge.rows.batches import BatchStore
    from flykka.spark_bridge.rows.filesystem import FileSystem
    from flykka.spark_bridge.session.attempt_scope import AttemptScope
    from flykka.spark_bridge.state.local_state import LocalState, LocalStates


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStorage:
    """The storage of the attempt of a `descriptor`. With `merges_in_background`, segments merge beside the stages."""

    descriptor: TaskDeploymentDescriptor
    scope: AttemptScope
    store: BatchStore
    filesystem: FileSystem
    local_states: LocalStates
    memory: ManagedMemory = field(default_factory=ManagedMemory)
    merges_in_background: bool = True

    @property
    def files(self) -> StateFiles:
        sync = self.descriptor.checkpoint_fsync
        return StateFiles(filesystem=self.filesystem, session=self.scope.session, sync=sync)

    @property
    def local(self) -> LocalState[Any]:
        """The state of the subtask that is still where it was made."""
        vertex = self.descriptor.vertex
        return self.local_states.of(vertex.vertex_id, self.descriptor.subtask, vertex.parallelism)
