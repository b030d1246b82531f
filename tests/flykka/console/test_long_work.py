"""Long work in Spark is observed by the drawing thread, and shown in the job's first line."""

from __future__ import annotations

from threading import Event

from flykka.console.job_picture import JobPicture
from flykka.console.live import LongWork
from flykka.messages.attempt.answers import WorkProgress
from tests.flykka.console.pictures import DETAILS, rendered_lines

PATIENCE_SECONDS = 10
YOUNG = WorkProgress(piece=2, what="stage 2 of 'merge'", age_ms=1_200, jobs=1, tasks=4)
OLD = WorkProgress(piece=1, what="stage 1 of 'merge'", age_ms=4_900, jobs=1, tasks=8, tasks_done=3, tasks_active=2)


def test_the_oldest_work_is_shown_first() -> None:
    work = LongWork(lambda: (YOUNG, OLD))

    work.look()

    assert work.seen() == (OLD, YOUNG)


def test_no_work_is_shown_after_the_end_of_spark() -> None:
    answers = [(OLD,)]
    work = LongWork(lambda: answers.pop())

    work.look()
    before = work.seen()
    work.look()

    assert before == (OLD,)
    assert work.seen() == ()


def test_spark_is_polled_outside_the_drawing_thread() -> None:
    looks: list[int] = []
    looked_twice, may_answer = Event(), Event()

    def look() -> tuple[WorkProgress, ...]:
        looks.append(1)
        if len(looks) == 2:
            looked_twice.set()
            assert may_answer.wait(PATIENCE_SECONDS)
        return (OLD,)

    work = LongWork(look, interval_seconds=0.001)
    work.start()
    assert looked_twice.wait(PATIENCE_SECONDS)
    seen_meanwhile = work.seen()
    work.close()
    may_answer.set()

    assert seen_meanwhile == (OLD,)


def test_the_picture_counts_finished_spark_tasks_of_the_oldest_work() -> None:
    picture = JobPicture(DETAILS, long_work=(OLD, YOUNG))

    assert (
        rendered_lines(picture)[1]
        == "delays  RUNNING  12.3 s  3 of 8 Spark tasks, 4 s into stage 1 of 'merge', and 1 more"
    )


def test_the_picture_keeps_its_height_and_task_counts_on_narrow_terminals() -> None:
    lines = rendered_lines(JobPicture(DETAILS, long_work=(OLD,)), width=60)

    assert len(lines) == len(rendered_lines(JobPicture(DETAILS), width=60))
    assert lines[1].startswith("delays  RUNNING  12.3 s  3 of 8 Spark tasks, 4 s into")


def test_work_unknown_to_spark_is_marked() -> None:
    opening = WorkProgress(piece=1, what="opening", age_ms=7_000)

    assert rendered_lines(JobPicture(DETAILS, long_work=(opening,)))[1].endswith("no Spark task yet, 7 s into opening")
