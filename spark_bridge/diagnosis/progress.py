"""Progress of Spark with the running work of an attempt. Reading it blocks: each number is asked of the JVM."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic_ns
from typing import TYPE_CHECKING

from flykka.messages.attempt.work import WorkProgress

if TYPE_CHECKING:
    from pyspark import StatusTracker

    from flykka.spark_bridge.attempt.scope import AttemptScope
    from flykka.spark_bridge.attempt.stage_executor import Work


def read_progress(scope: AttemptScope, works: Iterable[Work], at_least_ms: int = 0) -> tuple[WorkProgress, ...]:
    """Return the work that has run for at least `at_least_ms`, with the tasks of its Spark jobs.

    Raises as Py4J does where Spark is gone; Spark is not asked where there is no such work.
    """
    old_enough = [work for work in works if _age_ms(work) >= at_least_ms]
    if not old_enough:
        return ()
    tracker = scope.session.sparkContext.statusTracker()
    return tuple(_progress(tracker, scope.job_group(work.piece), work) for work in old_enough)


def _progress(tracker: StatusTracker, group: str, work: Work) -> WorkProgress:
    jobs = list(tracker.getJobIdsForGroup(group))
    infos = [info for job in jobs if (info := tracker.getJobInfo(job)) is not None]
    # A skipped stage, whose shuffle files are there, has no stage info.
    ids = sorted({stage for info in infos for stage in info.stageIds})
    stages = [stage for stage_id in ids if (stage := tracker.getStageInfo(stage_id)) is not None]
    return WorkProgress(
        piece=work.piece,
        what=work.what,
        age_ms=_age_ms(work),
        jobs=len(jobs),
        tasks=sum(stage.numTasks for stage in stages),
        tasks_done=sum(stage.numCompletedTasks for stage in stages),
        tasks_active=sum(stage.numActiveTasks for stage in stages),
        tasks_failed=sum(stage.numFailedTasks for stage in stages),
    )


def _age_ms(work: Work) -> int:
    return (monotonic_ns() - work.begun_ns) // 1_000_000
