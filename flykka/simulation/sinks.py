"""The two phases of a simulated sink, by the rules of the file sink: staged, pending with a checkpoint, published.

`<root>/staging/<job>/<sink>-<subtask>/<attempt>-<n>` is nobody's to read; `<root>/output/<sink>/...` is for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

from flykka.messages.state.operator_state import PendingFile, StagingFolder
from flykka.messages.tasks.bridge import StagedOutput
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import OperatorId
from flykka.messages.wire.message import Value
from flykka.simulation.operators import Sink
from flykka.simulation.rows import Rows
from flykka.simulation.world import World


class SinkWriter:
    """What one attempt has staged and not yet published."""

    def __init__(
        self, behaviour: Sink, operator_id: OperatorId, descriptor: TaskDeploymentDescriptor, world: World
    ) -> None:
        self.operator_id = operator_id
        self._world = world
        self._attempt = descriptor.attempt
        self._folder = f"{world.root}/staging/{descriptor.job_id}/{behaviour.name}-{descriptor.subtask}"
        self._output = f"{world.root}/output/{behaviour.name}"
        self._numbers = count()
        self._pending: tuple[PendingFile, ...] = ()
        self._inherited: frozenset[str] = frozenset()

    def stage(self, rows: Rows) -> StagedOutput:
        """Write rows out of sight. Raises `OSError`."""
        path = f"{self._folder}/{self._attempt}-{next(self._numbers)}"
        self._world.storage.write(self._world.path(path), rows)
        return StagedOutput(operator_id=self.operator_id, names=(path,), rows=len(rows))

    def prepare_commit(self, checkpoint_id: int, staged: Iterable[str]) -> tuple[Value, ...]:
        """Give what was staged before a barrier its final names; what to keep in this checkpoint and all to come."""
        self._pending += tuple(
            PendingFile(
                checkpoint_id=checkpoint_id,
                staged=path,
                target=f"{self._output}/{path.rsplit('/', 1)[-1]}-{checkpoint_id}",
            )
            for path in staged
        )
        folders = (self._folder, *sorted(self._inherited))
        return (*self._pending, *(StagingFolder(path=path) for path in folders))

    def commit(self, checkpoint_id: int) -> tuple[str, ...]:
        """Publish what a complete checkpoint holds; the files. Raises `OSError`."""
        due = tuple(file for file in self._pending if file.checkpoint_id <= checkpoint_id)
        for file in due:
            self._world.publish(file)
        self._pending = tuple(file for file in self._pending if file.checkpoint_id > checkpoint_id)
        self._world.discard(sorted(self._inherited))
        self._inherited = frozenset()
        return tuple(file.target for file in due)

    def restore(self, prepared: Sequence[Value]) -> None:
        """Publish what the checkpoint holds, discard all else that attempts before have staged. Raises `OSError`."""
        inherited: set[str] = set()
        for number, piece in enumerate(prepared):
            match piece:
                case PendingFile() as pending:
                    self._publish(number, pending)
                case StagingFolder(path=path):
                    inherited.add(path)
                case _:
                    raise AssertionError(f"{piece} is nothing of a sink's")
        self._world.discard([self._folder])
        self._inherited = frozenset(inherited - {self._folder})

    def _publish(self, number: int, pending: PendingFile) -> None:
        world = self._world
        if not pending.in_savepoint:
            world.publish(pending)
        elif world.path(pending.target) not in world.storage.files:
            # A copy: the savepoint stays as it is.
            copy = f"{self._folder}/{self._attempt}-savepoint-{number}"
            world.storage.write(world.path(copy), world.storage.read_rows(world.path(pending.staged)))
            world.publish(PendingFile(checkpoint_id=pending.checkpoint_id, staged=copy, target=pending.target))

    def copy_into(self, savepoint: str, prepared: Iterable[Value]) -> tuple[tuple[Value, ...], str, int]:
        """Copies of what is pending in a folder of the savepoint; that, the folder, its bytes. Raises `OSError`."""
        folder, kept, size_bytes = f"{savepoint}/{self._attempt}-{self.operator_id}", list[Value](), 0
        storage = self._world.storage
        for number, piece in enumerate(prepared):
            if isinstance(piece, PendingFile):
                copy = f"{folder}/{number}"
                storage.write(self._world.path(copy), storage.read_rows(self._world.path(piece.staged)))
                size_bytes += storage.size(self._world.path(copy))
                pending = PendingFile(
                    checkpoint_id=piece.checkpoint_id, staged=copy, target=piece.target, in_savepoint=True
                )
                kept.append(pending)
        return tuple(kept), folder, size_bytes
