"""Long work in Spark is observed by the drawing thread, and shown in the job's first line."""

from __future__ import annotations

from threading import Event

from flykka.console.job_picture import JobPicture
from flykka.console.live import LongWork
from flykka.messages.attempt.answers import WorkProgress
from tests.flykka.console.pictures import DETAILS, shown

PATIENCE_SECONDS = 10
YOUNG = WorkProgress(piece=2, what="stage 2 of 'merge'", age_ms=1_200, jobs=1, tasks=4)
OLD = WorkProgress(piece=1, what="stage 1 of 'merge'", age_ms=4_900, jobs=1, tasks=8, tasks_done=3, tasks_active=2)


def test_the_oldest_is_the_first_to_be_seen() -> None:
    work = LongWork(lambda: (YOUNG, OLD))

    work.look()

    assert work.seen() == (OLD, YOUNG)


def test_where_spark_has_gone_nothing_is_seen_any_more() -> None:
    answers = [(OLD,)]
    work = LongWork(lambda: answers.pop())

    work.look()
    before = work.seen()
    work.look()

    assert before == (OLD,)
    assert work.seen() == ()


def test_spark_is_asked_again_and_again_without_the_thread_that_draws() -> None:
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


def test_the_picture_says_how_many_spark_tasks_of_the_oldest_are_done() -> None:
    picture = JobPicture(DETAILS, long_work=(OLD, YOUNG))

    assert shown(picture)[1] == "delays  RUNNING  12.3 s  3 of 8 Spark tasks, 4 s into stage 1 of 'merge', and 1 more"


def test_the_picture_is_no_taller_for_it_and_on_a_narrow_terminal_the_tasks_stay() -> None:
    lines = shown(JobPicture(DETAILS, long_work=(OLD,)), width=60)

    assert len(lines) == len(shown(JobPicture(DETAILS), width=60))
    assert lines[1].startswith("delays  RUNNING  12.3 s  3 of 8 Spark tasks, 4 s into")


def test_work_that_spark_has_not_heard_of_says_so() -> None:
    opening = WorkProgress(piece=1, what="opening", age_ms=7_000)

    assert shown(JobPicture(DETAILS, long_work=(opening,)))[1].endswith("no Spark task yet, 7 s into opening")
