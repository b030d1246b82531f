"""A source followed by a keyed operator that is rescaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flykka.actors.machines.state.assignment import assign
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.spark_bridge.operators.code import OperatorCode
from tests.conformance.key_groups.checkpoints import checkpoint_of_states
from tests.spark_bridge.driven_attempts import DrivenAttempt
from tests.spark_bridge.harness import Harness, write_rows

Sale = tuple[int, int | None, float]


class KeyedAttempts:
    """A source of some batches, and an operator that reads these batches by key and writes to the output."""

    def __init__(
        self, harness: Harness, code: OperatorCode, files: Sequence[Sequence[Sale]], *before: OperatorCode
    ) -> None:
        """The operators `before` run before the exchange."""
        for number, rows in enumerate(files):
            write_rows(harness.input / f"{number}.parquet", rows)
        self.harness = harness
        self.source_vertex = harness.source(*before)
        self.vertex = harness.vertex("keyed", code, harness.sink())
        self.splits = harness.splits(self.source_vertex)
        self.attempts = 0

    def begin(self, parallelism: int = 1, snapshots: Sequence[TaskStateSnapshot] = ()) -> list[DrivenAttempt]:
        """Start the subtasks from the previous subtasks' snapshots."""
        vertex = replace(self.vertex, parallelism=parallelism)
        before = replace(self.vertex, parallelism=len(snapshots) or parallelism)
        states = assign(checkpoint_of_states({before.vertex_id: (before, list(snapshots))}), [vertex]).states
        self.source = self.harness.begin(self.source_vertex, readers=parallelism, number=self.attempts).open()
        self.attempts += 1
        return [
            self.harness.begin(vertex, subtask=subtask, number=self.attempts, reads=self.source).open(
                states.get((vertex.vertex_id, subtask))
            )
            for subtask in range(parallelism)
        ]

    def read(self, subtasks: Sequence[DrivenAttempt], *files: int) -> None:
        for file in files:
            batch = self.source.read([self.splits[file]])
            for number, each in enumerate(subtasks):
                each.run(batch, subpartition=number)


def take_snapshots(subtasks: Sequence[DrivenAttempt], checkpoint_id: int) -> list[TaskStateSnapshot]:
    snapshots = []
    for each in subtasks:
        snapshots.append(each.snapshot(checkpoint_id).state)
        each.commit(checkpoint_id)
        each.close()
    return snapshots
