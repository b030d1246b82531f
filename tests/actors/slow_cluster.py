"""A data plane of names with a slow sink, so that batches queue up upstream of the sink. Unaligned checkpoints exist
for this case.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from flykka.messages.attempt.answers import EngineFailed, StageResult
from flykka.messages.attempt.commands import ProcessBatch, ReadSplits, StageOutput
from flykka.messages.graph.job_graph import Operator
from flykka.messages.tasks.source import FileSplit, SplitsDiscovered
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import OperatorId, SplitId
from tests.actors.engines import Batches, BatchesEngine
from tests.actors.whole_cluster import Names, OneFileAtATime

FILES = 16
ALL_FILES = sorted(f"file-{number}" for number in range(FILES))
SLOW_MS = 700
"""The sink's time per batch in milliseconds. With sixteen files and two subtasks, a job takes about six seconds."""


class AllAtOnce(OneFileAtATime):
    interval_ms: int | None = None

    def discover(self, position: bytes) -> SplitsDiscovered:
        splits = tuple(FileSplit(split_id=SplitId(name), path=f"/in/{name}", start_row=0, rows=1) for name in ALL_FILES)
        return SplitsDiscovered(
            operator_id=self._operator_id, splits=splits, finished=True, begun_at=position, position=b"all"
        )


class SlowEngine(BatchesEngine):
    """Sources produce one batch per split, sinks take time, and stages run sequentially."""

    takes_ms = MappingProxyType({"read_splits": 1, "process_batch": SLOW_MS})

    def read_splits(self, command: ReadSplits) -> StageResult:
        rows = [str(split.split_id) for split in command.splits]
        [output] = self._descriptor.outputs
        batch = self.batches.put(rows, int(rows[0].removeprefix("file-")) % output.subpartitions)
        outputs = (StageOutput(output=0, batch=batch),)
        return StageResult(stage=command.stage, outputs=outputs, rows_in=len(rows), rows_out=len(rows))

    def process_batch(self, command: ProcessBatch) -> StageResult:
        return self.staged(command.stage, self.batches.rows[command.batch.batch_id])


class SlowNames(Names):
    def __init__(self) -> None:
        super().__init__()
        self.batches = Batches()

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> SlowEngine:
        return SlowEngine(descriptor, self.sink, self.batches)

    def split_discovery(self, job_id: object, operator: Operator) -> AllAtOnce:
        return AllAtOnce(OperatorId(operator.operator_id))
