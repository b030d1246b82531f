"""Successive versions of a job with random events: every row is counted once, and no savepoint is incomplete. Each
version has another parallelism, and starts from the checkpoint or savepoint with which its predecessor was stopped.
Savepoints are taken at any time, also two at once, during checkpoints and while the job stops, and TaskManagers are
killed. The seed decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.messages.attempt.answers import CheckpointCommitted, SnapshotWritten
from flykka.messages.attempt.commands import SnapshotState
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, NotifyCheckpointComplete, TriggerCheckpoint
from flykka.messages.control.checkpoint_coordination import MetadataWritten, SavepointCompleted
from flykka.messages.control.job import (
    JobResultSuccess,
    StoppingFailure,
    StoppingSuccess,
    TriggerSavepointFailure,
    TriggerSavepointSuccess,
)
from flykka.messages.wire.message import Message
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.keyed_cluster import ALL_ROWS, KeyedRows, keyed_job
from tests.actors.whole_cluster import WholeCluster, is_a

pytestmark = pytest.mark.slow

PARALLELISMS = (1, 2, 4, 1)
MOMENTS: Sequence[type[Message]] = (
    TriggerCheckpoint,
    SnapshotState,
    SnapshotWritten,
    AcknowledgeCheckpoint,
    MetadataWritten,
    SavepointCompleted,
    NotifyCheckpointComplete,
    CheckpointCommitted,
)
CHECKPOINTS: Sequence[dict[str, Any]] = (
    {},
    {"max_concurrent": 2},
    {"unaligned": True},
    {"unaligned": True, "aligned_timeout_ms": 50},
)


class Upgrades:
    def __init__(self, system: SeededSystem, seed: int, folder: Path) -> None:
        self.plane = KeyedRows()
        self.stage = WholeCluster(system, folder / "checkpoints", self.plane, slots=4)
        self.savepoints = folder / "savepoints"
        self.wanted = 0
        self._moved = folder / "moved"
        self._chance = Random(seed)
        self._system = system
        self.stage.checkpointing = {"tolerable_failures": 100, **self._chance.choice(CHECKPOINTS)}

    def begin(self, job: str, parallelism: int, path: str | None) -> None:
        self.stage.submit(job, restore_path=path, vertices=keyed_job(parallelism))
        self._system.advance(self._chance.choice((60, 200, 400)))
        if self._chance.random() < 0.6:
            kill_when(self._system, "/user/task-manager-1", is_a(self._chance.choice(MOMENTS)))
        for _ in range(self._chance.choice((0, 1, 2))):
            self._trigger_savepoint(job)
            self._system.advance(self._chance.choice((0, 1, 30, 200)))

    def stop(self, job: str) -> str:
        """Stop a job, with retries, and return the checkpoint or the moved savepoint."""
        for _ in range(10):
            self.stage.stop(job, self._chance.choice((None, self.savepoints)))
            if self._chance.random() < 0.3:
                self._trigger_savepoint(job)
            if (path := self._stopped()) is not None:
                self.stage.run(seconds=2)
                return path if "savepoint" not in path else str(Path(path).rename(f"{self._moved}-{job}"))
            self._system.advance(300)
        raise AssertionError(f"{job} cannot be stopped")

    def _stopped(self) -> str | None:
        for _ in range(1_000):
            if self.stage.client.received(StoppingFailure):
                return None
            if stopped := self.stage.client.received(StoppingSuccess):
                return stopped[0].checkpoint_path
            self._system.advance(10)
        raise AssertionError("a request to stop a job is not answered")

    def _trigger_savepoint(self, job: str) -> None:
        self.wanted += 1
        self.stage.trigger_savepoint(self.savepoints, job)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if seed in (4, 6) else pytest.mark.long) for seed in range(12)]
)
def test_every_row_counts_once_and_no_savepoint_is_partial(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        upgrades = Upgrades(system, seed, tmp_path)
        client = upgrades.stage.client
        path: str | None = None
        for number, parallelism in enumerate(PARALLELISMS):
            upgrades.begin(f"job-{number}", parallelism, path)
            if number < len(PARALLELISMS) - 1:
                path = upgrades.stop(f"job-{number}")
        upgrades.stage.run(seconds=30)

        taken = [success.savepoint_path for success in client.received(TriggerSavepointSuccess)]
        assert client.received(JobResultSuccess)[-1].job_id == "job-3"
        assert upgrades.plane.durable.rows() == ALL_ROWS
        assert upgrades.plane.durable.late == []
        assert len(taken) + len(client.received(TriggerSavepointFailure)) == upgrades.wanted
        there = [str(folder) for folder in upgrades.savepoints.glob("*")]
        assert set(taken) <= {CheckpointStorage(folder).read_metadata(folder).path for folder in there}
