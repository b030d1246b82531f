"""How far Spark is with what an attempt has at work. Looking blocks: each number is asked of the JVM."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic_ns
from typing import TYPE_CHECKING

from flykka.messages.tasks.bridge import WorkProgress

if TYPE_CHECKING:
    from pyspark import StatusTracker

    from flykka.spark_bridge.attempt.scope import AttemptScope
    from flykka.spark_bridge.attempt.workers import Work


def look_at(scope: AttemptScope, works: Iterable[Work], at_least_ms: int = 0) -> tuple[WorkProgress, ...]:
    """What has been at work for at least so long, with the tasks of its Spark jobs.

    Raises whatever Py4J raises where Spark is gone; Spark is not asked where there is no such work.
    """
    looked_at = [work for work in works if _age_ms(work) >= at_least_ms]
    if not looked_at:
        return ()
    tracker = scope.session.sparkContext.statusTracker()
    return tuple(_progress(tracker, scope.job_group(work.piece), work) for work in looked_at)


def _progress(tracker: StatusTracker, group: str, work: Work) -> WorkProgress:
    jobs = list(tracker.getJobIdsForGroup(group))
    infos = [info for job in jobs if (info := tracker.getJobInfo(job)) is not None]
    # What a job does not need to do again, as it reads what a shuffle has left, has no stage that runs.
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
