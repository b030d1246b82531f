"""The two phases of a simulated sink, by the rules of the file sink: staged, pending with a checkpoint, published.

`<root>/staging/<job>/<sink>-<subtask>/<attempt>-<n>` is nobody's to read; `<root>/output/<sink>/...` is for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from flykka.actors.machines.state.operator_state import Committables
from flykka.messages.state.handles import PendingFile, StagingFolder
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.message import Value
from flykka.simulation.operators import Sink
from flykka.simulation.rows import Rows
from flykka.simulation.world import World
from flykka.spark_bridge.program.sink_writer import SinkWriter, Staged
from flykka.spark_bridge.state.savepoint import out_of_savepoint


class SimulatedSinkWriter(SinkWriter[Rows]):
    """Files that one attempt has staged and not yet published."""

    def __init__(self, behaviour: Sink, descriptor: TaskDeploymentDescriptor, world: World) -> None:
        self._world = world
        self._attempt = descriptor.attempt
        self._folder = f"{world.root}/staging/{descriptor.job_id}/{behaviour.name}-{descriptor.subtask}"
        self._output = f"{world.root}/output/{behaviour.name}"
        self._numbers = count()
        self._committables: Committables[PendingFile] = Committables()
        self._inherited: frozenset[str] = frozenset()

    def stage(self, rows: Rows) -> Staged:
        """Write rows out of sight. Raises `OSError`."""
        if not rows:
            return Staged(rows=0)
        path = f"{self._folder}/{self._attempt}-{next(self._numbers)}"
        self._world.storage.write(self._world.path(path), rows)
        return Staged(rows=len(rows), names=(path,))

    def prepare_commit(self, checkpoint_id: int, names: Sequence[str]) -> tuple[Value, ...]:
        """Give what was staged before a barrier its final names; what to keep in this checkpoint and all to come."""
        self._committables.pending += tuple(
            PendingFile(
                checkpoint_id=checkpoint_id,
                staged=path,
                target=f"{self._output}/{path.rsplit('/', 1)[-1]}-{checkpoint_id}",
            )
            for path in names
        )
        folders = (self._folder, *sorted(self._inherited))
        return (*self._committables.pending, *(StagingFolder(path=path) for path in folders))

    def commit(self, checkpoint_id: int) -> tuple[str, ...]:
        """Publish what a complete checkpoint holds; the files. Raises `OSError`."""
        due = self._committables.due(checkpoint_id)
        for file in due:
            self._world.publish(file)
        self._committables.on_committed(checkpoint_id)
        self._world.discard(sorted(self._inherited))
        self._inherited = frozenset()
        return tuple(file.target for file in due)

    def restore(self, prepared: Sequence[Value]) -> None:
        """Publish what the checkpoint holds, discard all else that attempts before have staged. Raises `OSError`."""
        inherited: set[str] = set()
        for piece in out_of_savepoint(self._world, prepared, self._folder):
            match piece:
                case PendingFile() as pending:
                    self._world.publish(pending)
                case StagingFolder(path=path):
                    inherited.add(path)
                case _:
                    raise AssertionError(f"{piece} is nothing of a sink's")
        self._world.discard([self._folder])
        self._inherited = frozenset(inherited - {self._folder})
