"""Drivers that share a store: each has its own cluster in its own virtual time."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from flykka.actors.high_availability.embedded import EmbeddedHaServices, EmbeddedStore
from flykka.messages.control.high_availability import ApplicationRun
from flykka.messages.control.job_manager import ApplicationRunFound, RequestApplicationRun
from flykka.messages.control.registration import RegisterJobMaster
from flykka.messages.tasks.task import ExecutionState
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.job_cluster import JobCluster


def services_on(store: EmbeddedStore, driver: str) -> EmbeddedHaServices:
    numbers = count(1)
    return EmbeddedHaServices(store, lambda: f"{driver}-{next(numbers)}")


class Driver(JobCluster):
    def __init__(self, system: SeededSystem, folder: Path, store: EmbeddedStore, name: str) -> None:
        super().__init__(system, folder, services=services_on(store, name))

    def fall_asleep(self, store: EmbeddedStore) -> None:
        """Lose the leadership and be notified of the loss, as a driver that could not renew its lease."""
        store.leave(self.services._backend)
        self.services.lost()
        self.system.run_until_idle()

    def wake_up(self, store: EmbeddedStore) -> None:
        """Apply for the leadership again, after the other candidates."""
        store.enter(self.services._backend, self.services)
        self.system.run_until_idle()

    def job_masters(self) -> list[RegisterJobMaster]:
        registrations = self.received(self.resource_manager, RegisterJobMaster)
        return list({each.job_master: each for each in registrations}.values())

    def stored_jobs(self) -> list[str]:
        return list(self.services._backend.names("jobs"))

    def finish(self, task_manager: ActorRef) -> None:
        for descriptor in self.deployed(task_manager)[-2:]:
            self.report(descriptor.attempt, ExecutionState.FINISHED)

    def bring_to_running(self, name: str) -> ActorRef:
        self.accept_job_master()
        task_manager = self.register_task_manager(name)
        self.offer(name, 1)
        for descriptor in self.deployed(task_manager):
            self.report(descriptor.attempt, ExecutionState.RUNNING)
        return task_manager

    def run_of_application(self, *, begins_new: bool = False) -> ApplicationRun | None:
        """Return the run of the application; None if this driver is not the leader."""
        asking = self.stand(f"asking-{next(self._asked)}")
        self.job_manager.tell(RequestApplicationRun(reply_to=asking, begins_new=begins_new))
        answers = self.received(asking, ApplicationRunFound)
        return answers[-1].run if answers else None

    def conclude(self) -> ApplicationRun:
        run = self.run_of_application()
        leader = self.services.leader()
        assert run is not None
        assert leader is not None
        self.services.store(leader.leader_session_id).conclude_run(run.run_id)
        self.services.close()
        return run

    _asked = count(1)
