"""Injects faults into a run, which are always abrupt, like a power failure."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.recovery import sales
from benchmarks.recovery.outage import Outage
from flykka.actors.checkpoint_coordinator.actor import CheckpointCoordinator
from flykka.actors.job_master.actor import JobMaster
from flykka.actors.task.actor import Task
from flykka.actors.task_manager.actor import TaskManager

if TYPE_CHECKING:
    from pyspark import SparkContext

    from flykka import StreamExecutionEnvironment
    from flykka.runtime.actor import Actor

_OUTAGE_S = 0.3
_STAGE_COMES_WITHIN_S = 5.0
_LOOK_S = 0.002
_OF_AN_ATTEMPT = "Some(flykka-"


class Kind(StrEnum):
    """The target of a kill. All targets except the driver's process and its power are killed from within that process.

    A power failure affects the process and the disk that everything is written to; it needs root, and is not drawn by
    default.
    """

    TASK_MANAGER = "task_manager"
    TASK = "task"
    BRIDGE = "bridge"
    JOB_MASTER = "job_master"
    COORDINATOR = "coordinator"
    STAGE = "stage"
    STORAGE = "storage"
    DRIVER = "driver"
    POWER = "power"


USUAL = tuple(kind for kind in Kind if kind is not Kind.POWER)

_ACTORS: dict[Kind, type[Actor]] = {
    Kind.TASK_MANAGER: TaskManager,
    Kind.TASK: Task,
    Kind.BRIDGE: Task,
    Kind.JOB_MASTER: JobMaster,
    Kind.COORDINATOR: CheckpointCoordinator,
}


class FaultInjector:
    """Injects faults into one environment; if there are several targets, one is drawn with `chance`."""

    def __init__(self, env: StreamExecutionEnvironment, folder: Path, chance: random.Random) -> None:
        self._env = env
        self._folder = folder
        self._chance = chance
        self._ends: list[Callable[[], object]] = []
        self._missed = False

    def inject(self, kind: Kind) -> bool:
        """Inject the fault now; return False if there is no such target at the moment."""
        match kind:
            case Kind.STAGE:
                return self._cancel_a_stage()
            case Kind.STORAGE:
                return self._take_a_folder_away()
            case _:
                return self._kill_an_actor(kind)

    def end(self) -> bool:
        """Wait until the faults have taken effect; return whether each has hit a target."""
        for end in self._ends:
            end()
        return not self._missed

    def _kill_an_actor(self, kind: Kind) -> bool:
        system = self._env.cluster.system
        living = (cell for cell in system.cells.living() if cell.props.actor_class is _ACTORS[kind])
        paths = sorted(cell.ref.path for cell in living)
        if kind is Kind.BRIDGE:
            paths = [f"{path}/bridge" for path in paths]
        doomed = system.find(self._chance.choice(paths)) if paths else None
        if doomed is None:
            return False
        system.kill(doomed)
        return True

    def _cancel_a_stage(self) -> bool:
        """Fail the running Spark job, or the next one, as if a stage had failed too often."""
        canceller = threading.Thread(target=self._cancel_running_job, name="canceller")
        canceller.start()
        self._ends.append(canceller.join)
        return True

    def _cancel_running_job(self) -> None:
        context = self._env.spark.sparkContext
        tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
        ends = time.monotonic() + _STAGE_COMES_WITHIN_S
        while time.monotonic() < ends:
            for job in tracker.getActiveJobsIds():
                # The program itself runs Spark jobs, which infer the schema of its input.
                if str(store.job(job).jobGroup()).startswith(_OF_AN_ATTEMPT) and _is_cancelled(context, job):
                    return
            time.sleep(_LOOK_S)
        self._missed = True

    def _take_a_folder_away(self) -> bool:
        written = (sales.checkpoints, sales.each, sales.each_again, sales.hourly, sales.so_far)
        folders = [folder_of(self._folder) for folder_of in written]
        there = [folder for folder in folders if folder.is_dir()]
        if not there:
            return False
        outage = threading.Timer(_OUTAGE_S, Outage(self._chance.choice(there)).end)
        outage.start()
        self._ends.append(outage.join)
        return True


def _is_cancelled(context: SparkContext, job: int) -> bool:
    """Cancel a Spark job; return True if it failed because of that, and did not finish before."""
    context._jsc.sc().cancelJob(job)
    while (info := context.statusTracker().getJobInfo(job)) is not None and info.status == "RUNNING":
        time.sleep(_LOOK_S)
    return info is not None and info.status == "FAILED"
