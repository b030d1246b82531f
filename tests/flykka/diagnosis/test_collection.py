"""`flykka why` on a whole cluster in virtual time: with working, waiting and stuck actors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType

import pytest

from flykka.diagnosis.collection import collect_reports
from flykka.diagnosis.job_diagnosis import JobDiagnosis, diagnose
from flykka.messages.attempt.answers import EngineFailed
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import JobId
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.slow_cluster import SlowEngine, SlowNames
from tests.actors.whole_cluster import Names, WholeCluster
from tests.flykka.diagnosis.reports import details

JOB = JobId("job")


class HangingSnapshots(SlowEngine):
    takes_ms = MappingProxyType({**SlowEngine.takes_ms, "write_snapshot": None})


class HangingNames(SlowNames):
    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> SlowEngine:
        kind = HangingSnapshots if descriptor.inputs else SlowEngine
        return kind(descriptor, self.sink, self.batches)


@pytest.fixture
def system() -> Iterator[SeededSystem]:
    with SeededSystem(1) as system:
        yield system


def why(system: SeededSystem) -> JobDiagnosis:
    return diagnose(collect_reports(system, details(job_id=JOB, name="job"), time_limit=0.5))


def submitted(system: SeededSystem, folder: Path, data_plane: Names, *, parallelism: int = 2) -> WholeCluster:
    stage = WholeCluster(system, folder, data_plane)
    stage.submit(parallelism=parallelism)
    return stage


def test_a_working_job_names_its_busy_actors(system: SeededSystem, tmp_path: Path) -> None:
    stage = submitted(system, tmp_path, SlowNames())
    stage.run(seconds=1)

    explanation = why(system)

    assert "sink" in explanation.answer
    assert "its stage 1 of 'sink'" in explanation.answer
    assert [each.name for each in explanation.attempts] == ["source (1/2)", "source (2/2)", "sink (1/2)", "sink (2/2)"]
    assert {each.state for each in explanation.attempts} == {"RUNNING"}


def test_a_snapshot_that_never_completes_is_named(system: SeededSystem, tmp_path: Path) -> None:
    stage = submitted(system, tmp_path, HangingNames(), parallelism=1)
    stage.run(seconds=30)

    explanation = why(system)

    assert explanation.answer.startswith("sink (1/1) has not acknowledged checkpoint 1 for ")
    assert "writes its snapshot for checkpoint 1" in explanation.answer


def test_a_job_without_slots_is_explained_with_the_number_of_slots(system: SeededSystem, tmp_path: Path) -> None:
    stage = submitted(system, tmp_path, SlowNames(), parallelism=5)
    stage.run(seconds=2)

    explanation = why(system)

    assert "wait for a slot" in explanation.answer
    assert "2 TaskManagers with 4 slots" in explanation.answer


def test_an_ended_job_is_explained_from_its_details(system: SeededSystem, tmp_path: Path) -> None:
    stage = submitted(system, tmp_path, SlowNames())
    stage.run(seconds=30)

    assert why(system).answer == "job 'job' has FINISHED: it waits for nothing"


def test_a_diagnosis_has_no_side_effects(tmp_path: Path) -> None:
    def outcome(folder: Path, *, ask: bool) -> list[object]:
        with SeededSystem(7) as system:
            stage = submitted(system, folder, SlowNames())
            for _ in range(12):
                stage.run(seconds=1)
                if ask:
                    why(system)
            return [stage.statuses(), stage.data_plane.sink.published]

    assert outcome(tmp_path / "asked", ask=True) == outcome(tmp_path / "left", ask=False)
