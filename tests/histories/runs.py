"""The runs that golden traces were recorded of: whole casts in virtual time, and the example with its killed TaskManager.

Each ends as it was meant to, or is not recorded. Those in virtual time are the same at every recording, but for what a
change of behaviour has changed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fsspec.implementations.memory import MemoryFileSystem

from flykka.messages.checkpoint import AcknowledgeCheckpoint
from flykka.messages.job import (
    CheckpointAborted,
    CheckpointCompleted,
    JobRestored,
    JobResultSuccess,
    JobStatus,
    StoppingSuccess,
    TaskManagerLost,
    TriggerSavepointSuccess,
)
from flykka.messages.stage import WriteChannelState
from flykka.messages.task import UpdateTaskExecutionState
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.recorder import TraceRecorder
from tests.actors.cast import ALL_FILES, Names, Stage, is_a
from tests.actors.keyed_cast import ALL_ROWS, KeyedRows, keyed_job
from tests.actors.slow_cast import SlowNames
from tests.actors.slow_cast import ALL_FILES as SLOW_FILES
from tests.histories.mishaps import ClumsyNames

EXAMPLE = Path(__file__).parents[2] / "examples" / "flights.py"
_FOLDER = "memory://histories"


def killed_task_manager(path: Path) -> None:
    """A TaskManager dies while a checkpoint is acknowledged; another takes its place, and the job goes on."""
    with _recorded(path, Names()) as stage:
        stage.checkpointing = {"retained": 2}
        kill = kill_when(stage.system, "/user/task-manager-2", is_a(AcknowledgeCheckpoint))
        stage.submit()
        stage.run(seconds=10)

        assert kill.done
        assert stage.client.heard(TaskManagerLost)
        assert stage.statuses()[-1] is JobStatus.FINISHED
        assert stage.data_plane.sink.published == ALL_FILES


def rescaled(path: Path) -> None:
    """A job with keyed state is stopped with a checkpoint; another goes on from it with three subtasks for two."""
    plane = KeyedRows()
    with _recorded(path, plane) as stage:
        stage.submit("first", vertices=keyed_job(2))
        stage.system.advance(1_200)
        stage.stop("first")
        stage.run(seconds=5)
        stopped = stage.client.expect(StoppingSuccess)
        stage.submit("second", restore_path=stopped.checkpoint_path, vertices=keyed_job(3))
        stage.run(seconds=20)

        assert stage.client.heard(JobRestored)
        assert plane.world.rows() == ALL_ROWS


def savepoints(path: Path) -> None:
    """A savepoint of a job that goes on, and then one that it stops with."""
    with _recorded(path, Names()) as stage:
        stage.submit()
        stage.system.advance(300)
        stage.trigger_savepoint(f"{_FOLDER}/savepoints")
        stage.system.advance(400)
        stage.stop(savepoints=f"{_FOLDER}/savepoints")
        stage.run(seconds=2)

        assert stage.client.heard(TriggerSavepointSuccess)
        assert stage.client.heard(StoppingSuccess)
        assert stage.statuses()[-1] is JobStatus.FINISHED


def unaligned(path: Path) -> None:
    """Checkpoints begin aligned, give that up, and overtake what has piled up; one is restored from."""
    plane = SlowNames()
    with _recorded(path, plane) as stage:
        stage.checkpointing = {"unaligned": True, "aligned_timeout_ms": 300}
        written: list[object] = []
        stage.system.add_delivery_hook(
            lambda _recipient, message, _sender: (
                written.append(message) if isinstance(message, WriteChannelState) else None
            )
        )
        kill_when(stage.system, "/user/task-manager-2", is_a(CheckpointCompleted))
        stage.submit()
        stage.run(seconds=25)

        assert written
        assert plane.batches.restored
        assert plane.sink.published == SLOW_FILES


def declined_and_failed(path: Path) -> None:
    """A snapshot fails and its checkpoint is declined; then a stage fails and the job begins anew."""
    with _recorded(path, ClumsyNames()) as stage:
        stage.checkpointing = {"tolerable_failures": 1, "interval_ms": 200, "min_pause_ms": 150}
        stage.submit()
        stage.run(seconds=10)

        assert stage.client.heard(CheckpointAborted)
        assert stage.client.heard(JobRestored)
        assert stage.client.heard(JobResultSuccess)
        assert stage.data_plane.sink.published == ALL_FILES


def flights_with_a_kill(path: Path) -> None:
    """The example: real threads, Spark, and a TaskManager that is killed behind the third checkpoint."""
    subprocess.run([sys.executable, str(EXAMPLE), "--record", str(path)], check=True)


RUNS: dict[str, Callable[[Path], None]] = {
    "declined-and-failed": declined_and_failed,
    "flights-with-a-kill": flights_with_a_kill,
    "killed-task-manager": killed_task_manager,
    "rescaled": rescaled,
    "savepoints": savepoints,
    "unaligned": unaligned,
}


@contextmanager
def _recorded(path: Path, data_plane: Names) -> Iterator[Stage]:
    """A cast whose every turn is written to `path`; its checkpoints are in memory, and gone at the end."""
    with SeededSystem(6, recorder=TraceRecorder(path)) as system:
        try:
            yield Stage(system, f"{_FOLDER}/checkpoints", data_plane)
        finally:
            storage = MemoryFileSystem()
            if storage.exists("/histories"):
                storage.rm("/histories", recursive=True)
