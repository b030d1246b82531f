"""The last work of an attempt, stage by stage, with the Spark jobs of each. Reading it blocks: the JVM is asked."""

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
    from flykka.spark_bridge.attempt.stage_executor import DoneWork, StageExecutor, Work
    from flykka.spark_bridge.session.attempt_scope import AttemptScope


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceOfWork:
    """A stage, snapshot or commit, in words, begun `age_ms` ago; at work where `took_ms` is None.

    The rows are None of what moves none. `spark_jobs` are the ids of its Spark jobs, as far as Spark remembers them.
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
    """The work of an attempt, the newest first; `spark_ui` is the URL of Spark's own page, None where it has none."""

    attempt: ExecutionAttemptId
    pieces: tuple[PieceOfWork, ...]
    spark_ui: str | None


def read_work(scope: AttemptScope, workers: StageExecutor) -> AttemptWork:
    """Return what is at work and what was; without its Spark jobs where Spark is gone."""
    done = workers.done()
    over = {each.work.piece for each in done}
    works = [(each.work, each) for each in done] + [
        (each, None) for each in workers.at_work() if each.piece not in over
    ]
    jobs: dict[int, list[int]] = {}
    spark_ui = None
    try:
        context = scope.session.sparkContext
        spark_ui, tracker = context.uiWebUrl, context.statusTracker()
        for work, _ in works:
            jobs[work.piece] = sorted(tracker.getJobIdsForGroup(scope.job_group(work.piece)))
    except (OSError, Py4JError):
        # Its JVM is gone: what it was given to do is known here.
        pass
    # A stage moves rows first, and then takes them into its state: two pieces of one name.
    named: dict[str, list[tuple[Work, DoneWork | None]]] = {}
    for work, ended in works:
        named.setdefault(work.what, []).append((work, ended))
    newest_first = sorted(named.items(), key=lambda each: each[1][0][0].begun_ns, reverse=True)
    pieces = tuple(_told(what, parts, jobs) for what, parts in newest_first)
    return AttemptWork(attempt=scope.attempt, pieces=pieces, spark_ui=spark_ui)


def _told(what: str, parts: list[tuple[Work, DoneWork | None]], jobs: dict[int, list[int]]) -> PieceOfWork:
    done = [ended for _, ended in parts if ended is not None]
    moved = next((each for each in done if each.rows_in is not None), None)
    took_ns = sum(each.ended_ns - each.work.begun_ns for each in done)
    return PieceOfWork(
        what=what,
        age_ms=(monotonic_ns() - parts[0][0].begun_ns) // 1_000_000,
        took_ms=None if len(done) < len(parts) else took_ns // 1_000_000,
        rows_in=None if moved is None else moved.rows_in,
        rows_out=None if moved is None else moved.rows_out,
        has_failed=any(each.has_failed for each in done),
        spark_jobs=tuple(job for work, _ in parts for job in jobs.get(work.piece, ())),
    )
