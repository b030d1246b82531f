"""The recent and running work of an attempt, with its Spark jobs. Reads it from the JVM, which blocks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import monotonic_ns
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from flykka.messages.attempt.answers import WorkProgress

if TYPE_CHECKING:
    from pyspark import StatusTracker

    from flykka.messages.wire.ids import ExecutionAttemptId
    from flykka.spark_bridge.attempt.stage_executor import FinishedWork, RunningWork, StageExecutor
    from flykka.spark_bridge.session.attempt_scope import AttemptScope


def read_progress(scope: AttemptScope, works: Iterable[RunningWork], at_least_ms: int = 0) -> tuple[WorkProgress, ...]:
    """Calls Spark only if there is such work, and then raises Py4J's errors if Spark is gone."""
    old_enough = [work for work in works if _age_ms(work) >= at_least_ms]
    if not old_enough:
        return ()
    tracker = scope.session.sparkContext.statusTracker()
    return tuple(_progress(tracker, scope.job_group(work.piece), work) for work in old_enough)


def _progress(tracker: StatusTracker, group: str, work: RunningWork) -> WorkProgress:
    jobs = list(tracker.getJobIdsForGroup(group))
    infos = [info for job in jobs if (info := tracker.getJobInfo(job)) is not None]
    # Spark has no info about a skipped stage, whose shuffle files existed already.
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


def _age_ms(work: RunningWork) -> int:
    return (monotonic_ns() - work.started_ns) // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceOfWork:
    """A stage, snapshot or commit described in words, started `age_ms` ago. `took_ms` is None while it runs.

    The row counts are None for work that processes no rows. `spark_jobs` are the ids of the Spark jobs that Spark still
    remembers.
    """

    what: str
    age_ms: int
    took_ms: int | None
    rows_in: int | None
    rows_out: int | None
    has_failed: bool
    spark_jobs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptWork:
    """The work of an attempt, newest first. `spark_ui` is the URL of Spark's web UI, or None without a web UI."""

    attempt: ExecutionAttemptId
    pieces: tuple[PieceOfWork, ...]
    spark_ui: str | None


def read_work(scope: AttemptScope, workers: StageExecutor) -> AttemptWork:
    """Return running and finished work. If Spark is gone, the work has no Spark jobs."""
    finished = workers.finished()
    finished_numbers = {each.work.piece for each in finished}
    works = [(each.work, each) for each in finished] + [
        (each, None) for each in workers.running() if each.piece not in finished_numbers
    ]
    jobs: dict[int, list[int]] = {}
    spark_ui = None
    try:
        context = scope.session.sparkContext
        spark_ui, tracker = context.uiWebUrl, context.statusTracker()
        for work, _ in works:
            jobs[work.piece] = sorted(tracker.getJobIdsForGroup(scope.job_group(work.piece)))
    except (OSError, Py4JError):
        # The JVM is gone, but the attempt itself has recorded its work.
        pass
    # A stage first moves rows and later updates its state, as two units of work with the same name.
    by_name: dict[str, list[tuple[RunningWork, FinishedWork | None]]] = {}
    for work, ended in works:
        by_name.setdefault(work.what, []).append((work, ended))
    newest_first = sorted(by_name.items(), key=lambda each: each[1][0][0].started_ns, reverse=True)
    pieces = tuple(_piece(what, parts, jobs) for what, parts in newest_first)
    return AttemptWork(attempt=scope.attempt, pieces=pieces, spark_ui=spark_ui)


def _piece(what: str, parts: list[tuple[RunningWork, FinishedWork | None]], jobs: dict[int, list[int]]) -> PieceOfWork:
    finished = [ended for _, ended in parts if ended is not None]
    counted = next((each for each in finished if each.rows_in is not None), None)
    took_ns = sum(each.ended_ns - each.work.started_ns for each in finished)
    return PieceOfWork(
        what=what,
        age_ms=(monotonic_ns() - parts[0][0].started_ns) // 1_000_000,
        took_ms=None if len(finished) < len(parts) else took_ns // 1_000_000,
        rows_in=None if counted is None else counted.rows_in,
        rows_out=None if counted is None else counted.rows_out,
        has_failed=any(each.has_failed for each in finished),
        spark_jobs=tuple(job for work, _ in parts for job in jobs.get(work.piece, ())),
    )
