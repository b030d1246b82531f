"""A driver that takes over a rescaled job continues within the configured bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.high_availability.embedded import EmbeddedStore
from flykka.actors.job_manager.store import begin_again
from flykka.messages.control.rescaling import (
    JobParallelismChanged,
    JobResourceRequirements,
    JobResourceRequirementsRefused,
    JobResourceRequirementsUpdated,
    JobVertexResourceRequirements,
    RequestJobResourceRequirements,
    UpdateJobResourceRequirements,
)
from flykka.messages.control.slots import RequestSlot
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.monitoring.explanation import SlotsExplained
from flykka.messages.wire.ids import JobVertexId
from tests.actors.drivers import Driver
from tests.actors.machines.graph.graphs import JOB

BOUNDS = JobResourceRequirements(
    vertices=tuple(
        JobVertexResourceRequirements(vertex_id=JobVertexId(name), lower_bound=1, upper_bound=3)
        for name in ("source", "sink")
    )
)
THREE_SLOTS = SlotsExplained(now_ms=0, task_managers=(), slots=3, free=3, pending_requests=0)


def a_job(driver: Driver) -> JobGraph:
    graph = driver.graph()
    return replace(graph, checkpointing=replace(graph.checkpointing, interval_ms=60_000))


def test_the_next_driver_keeps_the_requirements_set_by_a_client(driver: Driver, second: Driver) -> None:
    driver.run(a_job(driver), slots=1)
    update = UpdateJobResourceRequirements(job_id=JOB, client=driver.client, requirements=BOUNDS)
    driver.tell(driver.job_manager, update)
    assert driver.last(driver.client, JobResourceRequirementsUpdated).requirements == BOUNDS
    driver.services.close()

    second.submit(a_job(second))
    second.accept_job_master()
    assert second.received(second.resource_manager, RequestSlot) == [], "it waits until it knows how many there are"
    second.send_as_resource_manager(THREE_SLOTS)

    changed = second.last(second.client, JobParallelismChanged)
    assert [each.parallelism for each in changed.vertices] == [3, 3]
    assert len(second.received(second.resource_manager, RequestSlot)) == 3
    second.tell(second.job_manager, RequestJobResourceRequirements(job_id=JOB, client=second.client))
    assert second.last(second.client, JobResourceRequirementsUpdated).requirements == BOUNDS


def test_a_start_counted_while_requirements_are_stored_is_not_lost(
    driver: Driver, store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.run(a_job(driver), slots=1)
    services, read = driver.services, store.read
    assert services.session is not None
    kept = services.store(services.session)

    def count_a_start_behind(path: str) -> bytes | None:
        found = read(path)
        if path.endswith("/graph"):
            monkeypatch.undo()
            [job] = kept.jobs()
            begin_again(kept, services, driver.data_plane, job)
        return found

    monkeypatch.setattr(store, "read", count_a_start_behind)
    update = UpdateJobResourceRequirements(job_id=JOB, client=driver.client, requirements=BOUNDS)
    driver.tell(driver.job_manager, update)

    [job] = kept.jobs()
    assert (job.starts, job.resource_requirements) == (1, BOUNDS)


def test_a_job_with_invalid_stored_requirements_uses_those_of_its_program(driver: Driver, second: Driver) -> None:
    driver.run(a_job(driver), slots=1)
    update = UpdateJobResourceRequirements(job_id=JOB, client=driver.client, requirements=BOUNDS)
    driver.tell(driver.job_manager, update)
    driver.services.close()

    second.submit(second.graph())
    second.accept_job_master()

    assert len(second.received(second.resource_manager, RequestSlot)) == 1, "it takes no checkpoints now"


def test_rescaling_a_nonexistent_job_is_refused(driver: Driver) -> None:
    driver.run_of_application()

    driver.tell(driver.job_manager, RequestJobResourceRequirements(job_id=JOB, client=driver.client))

    refused = driver.last(driver.client, JobResourceRequirementsRefused)
    assert refused.cause.message == "job job does not exist or has ended"
