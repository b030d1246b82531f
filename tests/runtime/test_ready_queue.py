"""The queue of ready actors loses no actor between producers and waiting consumers."""

from __future__ import annotations

import threading

from flykka.runtime.dispatch.pool import ReadyQueue


class Job:
    def __init__(self, number: int) -> None:
        self.number = number

    def run(self) -> None: ...


def _held() -> threading.Lock:
    latch = threading.Lock()
    latch.acquire()
    return latch


def test_ready_actors_run_in_order() -> None:
    queue = ReadyQueue()
    jobs = [Job(number) for number in range(3)]
    for job in jobs:
        queue.put(job)

    assert [queue.get(_held()) for _ in jobs] == jobs


def test_the_last_waiter_is_woken() -> None:
    queue = ReadyQueue()
    arrivals: list[str] = []

    def waits(name: str) -> None:
        queue.get(_held())
        arrivals.append(name)

    threads = []
    for name in ("first", "last"):
        threads.append(threading.Thread(target=waits, args=(name,), daemon=True))
        threads[-1].start()
        while len(queue._idle) < len(threads):
            threading.Event().wait(0.001)
    for thread in reversed(threads):
        queue.put(Job(0))
        thread.join(5)

    assert arrivals == ["last", "first"]


def test_work_added_while_a_consumer_begins_to_wait_is_not_missed() -> None:
    queue = ReadyQueue()
    job = Job(0)

    class ComesBehindTheLook(list[threading.Lock]):
        def append(self, latch: threading.Lock) -> None:
            queue._ready.append(job)
            super().append(latch)

    queue._idle = ComesBehindTheLook()

    assert queue.get(_held()) is job
    assert not queue._idle


def test_a_wake_up_concurrent_with_a_timeout_is_not_lost() -> None:
    queue = ReadyQueue()
    job = Job(0)

    class IsWokenBehindTheLook(list[threading.Lock]):
        def append(self, latch: threading.Lock) -> None:
            super().append(latch)
            queue.put(job)

    queue._idle = IsWokenBehindTheLook()
    latch = _held()

    assert queue.get(latch) is job
    assert latch.locked(), "the wake was taken with it"


def test_the_ready_queue_loses_and_duplicates_no_actor_on_many_threads() -> None:
    queue = ReadyQueue()
    taken: list[int] = []

    def works() -> None:
        latch = _held()
        while (job := queue.get(latch)) is not None:
            assert isinstance(job, Job)
            taken.append(job.number)

    def brings(first: int) -> None:
        for number in range(first, first + 2000):
            queue.put(Job(number))

    workers = [threading.Thread(target=works, daemon=True) for _ in range(4)]
    bringers = [threading.Thread(target=brings, args=(first,), daemon=True) for first in (0, 2000, 4000)]
    for thread in (*workers, *bringers):
        thread.start()
    for thread in bringers:
        thread.join(20)
    for _ in workers:
        queue.put(None)
    for thread in workers:
        thread.join(20)

    assert sorted(taken) == list(range(6000))
