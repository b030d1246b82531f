"""A circuit breaker protects callers from a failing service."""

from __future__ import annotations

import contextlib
import threading

import pytest

from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.errors import (
    AskFailedError,
    CircuitBreakerOpenError,
    CircuitBreakerTimeoutError,
)
from flykka.runtime.events import DeadLetter
from flykka.runtime.futures.future import Future
from flykka.runtime.patterns.circuit_breaker import CircuitBreaker, CircuitBreakerChanged, CircuitBreakerState
from flykka.runtime.props import Props
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import Say, fails, replies, says, scripted_actor

CLOSED, OPEN, HALF_OPEN = CircuitBreakerState.CLOSED, CircuitBreakerState.OPEN, CircuitBreakerState.HALF_OPEN


@pytest.fixture
def breaker(system: SeededSystem) -> CircuitBreaker:
    return CircuitBreaker(system, "db", max_failures=2, call_timeout=100, reset_timeout=1_000)


def broken() -> None:
    raise ConnectionError("down")


def open_it(breaker: CircuitBreaker, failures: int = 2) -> None:
    for _ in range(failures):
        with pytest.raises(ConnectionError):
            breaker.call(broken)


def test_a_closed_breaker_passes_calls_and_results(breaker: CircuitBreaker) -> None:
    assert breaker.call(divmod, 7, 2) == (3, 1)
    assert breaker.state is CLOSED


def test_consecutive_failures_open_the_breaker_and_block_further_calls(breaker: CircuitBreaker) -> None:
    called: list[str] = []
    open_it(breaker)

    with pytest.raises(
        CircuitBreakerOpenError, match="circuit breaker 'db' is open: the next trial call is in 1000 ms"
    ):
        breaker.call(called.append, "x")

    assert breaker.state is OPEN
    assert called == []


def test_a_success_in_between_resets_the_count(breaker: CircuitBreaker) -> None:
    open_it(breaker, failures=1)
    breaker.call(int)
    open_it(breaker, failures=1)

    assert breaker.state is CLOSED


def test_a_successful_trial_call_closes_the_breaker(system: SeededSystem, breaker: CircuitBreaker) -> None:
    open_it(breaker)
    system.advance(999)
    assert breaker.state is OPEN
    system.advance(1)
    assert breaker.state is HALF_OPEN

    assert breaker.call(int) == 0

    assert breaker.state is CLOSED


def test_a_failure_of_the_trial_call_opens_the_breaker_again(system: SeededSystem, breaker: CircuitBreaker) -> None:
    open_it(breaker)
    system.advance(1_000)

    open_it(breaker, failures=1)

    assert breaker.state is OPEN


def test_other_calls_are_refused_during_a_trial_call(system: SeededSystem, breaker: CircuitBreaker) -> None:
    open_it(breaker)
    system.advance(1_000)
    trial: Future[str] = Future(system.driver)

    first = breaker.with_future(lambda: trial)
    second = breaker.with_future(lambda: trial)

    with pytest.raises(CircuitBreakerOpenError, match="a trial call is running"):
        second.get(timeout=0)
    trial.set("well")
    assert first.get(timeout=0) == "well"
    assert breaker.state is CLOSED


def test_a_breaker_stays_open_longer_after_each_failed_trial_call(system: SeededSystem) -> None:
    breaker = CircuitBreaker(
        system, "db", max_failures=1, reset_timeout=100, max_reset_timeout=300, exponential_backoff_factor=2
    )
    waits: list[int] = []

    for _ in range(4):
        open_it(breaker, failures=1)
        begun = system.clock.now_ms()
        while breaker.state is OPEN:
            system.advance(10)
        waits.append(system.clock.now_ms() - begun)
    breaker.call(int)
    open_it(breaker, failures=1)
    system.advance(100)

    assert waits == [100, 200, 300, 300]
    assert breaker.state is HALF_OPEN


def test_the_random_part_of_the_reset_timeout_is_reproducible_with_the_seed() -> None:
    def wait(seed: int) -> int:
        with SeededSystem(seed) as system:
            breaker = CircuitBreaker(system, "db", max_failures=1, reset_timeout=1_000, random_factor=0.5)
            open_it(breaker, failures=1)
            with pytest.raises(CircuitBreakerOpenError) as refusal:
                breaker.call(int)
            return refusal.value.remaining_ms

    assert wait(1) == wait(1)
    assert 1_000 <= wait(1) <= 1_500
    assert len({wait(seed) for seed in range(5)}) > 1


def test_an_ask_that_times_out_is_a_failure(system: SeededSystem, breaker: CircuitBreaker) -> None:
    silent = system.spawn(scripted_actor([]), "silent")

    replies = [breaker.with_ask(silent, says("q"), timeout=60) for _ in range(2)]
    system.advance(100)

    for reply in replies:
        with pytest.raises(CircuitBreakerTimeoutError, match="longer than 100 ms"):
            reply.get(timeout=0)
    assert breaker.state is OPEN


def test_an_answer_after_the_deadline_is_a_dead_letter(system: SeededSystem, breaker: CircuitBreaker) -> None:
    letters: list[DeadLetter] = []
    system.event_stream.subscribe(letters.append, DeadLetter)

    class Late(Actor):
        def handle_message(self, message: Message) -> None:
            if message == says("q"):
                self.asker = self.context.sender
                self.context.timers.start_once("late", 500, says("now"))
            elif self.asker is not None:
                self.asker.tell(says("late"))

    late = system.spawn(Props(Late), "late")
    breaker.with_ask(late, says("q"), timeout=60)
    system.advance(1_000)

    assert [letter.message for letter in letters] == [says("late")]


def test_the_failure_of_an_asked_actor_is_counted_and_returned(system: SeededSystem, breaker: CircuitBreaker) -> None:
    ref = system.spawn(scripted_actor([], {"fail": fails, "q": replies}), "a")

    for _ in range(2):
        reply = breaker.with_ask(ref, says("fail"))
        with pytest.raises(AskFailedError, match="RuntimeError: as scripted"):
            reply.get(timeout=1)
    refused = breaker.with_ask(ref, says("q"))

    with pytest.raises(CircuitBreakerOpenError):
        refused.get(timeout=0)


def test_an_actor_pipes_guarded_work_to_itself(system: SeededSystem, breaker: CircuitBreaker) -> None:
    log: list[str] = []

    class Client(Actor):
        def handle_message(self, message: Message) -> None:
            assert isinstance(message, Say)
            if message.text == "call":
                work = breaker.with_blocking(broken)
                self.context.pipe_to_self(work, lambda _: says("well"), lambda error: says(type(error).__name__))
            else:
                log.append(message.text)

    ref = system.spawn(Props(Client), "client")
    for _ in range(3):
        ref.tell(says("call"))
        system.run_until_idle()

    assert log == ["ConnectionError", "ConnectionError", "CircuitBreakerOpenError"]


def test_hanging_work_fails_at_its_deadline_without_blocking_callers(threaded: ActorSystem) -> None:
    breaker = CircuitBreaker(threaded, "db", max_failures=1, call_timeout=20)
    opened, free = threading.Event(), threading.Event()
    breaker.on_open(opened.set)

    hung = breaker.with_blocking(lambda: free.wait(5))

    with pytest.raises(CircuitBreakerTimeoutError):
        hung.get(timeout=5)
    assert opened.wait(5)
    free.set()


def test_a_result_after_the_deadline_is_ignored(threaded: ActorSystem) -> None:
    breaker = CircuitBreaker(threaded, "db", max_failures=1, call_timeout=20)
    opened = threading.Event()
    breaker.on_open(opened.set)

    with pytest.raises(CircuitBreakerTimeoutError):
        breaker.call(opened.wait, 5)

    assert breaker.state is OPEN


def test_the_outcome_of_a_call_from_an_earlier_state_is_not_counted(
    system: SeededSystem,
) -> None:
    breaker = CircuitBreaker(system, "db", max_failures=1, call_timeout="1h", reset_timeout=1_000)
    early: Future[str] = Future(system.driver)
    passed = breaker.with_future(lambda: early)
    open_it(breaker, failures=1)
    system.advance(1_000)

    early.set("at last")

    assert passed.get(timeout=0) == "at last"
    assert breaker.state is HALF_OPEN


def test_only_failures_of_the_called_service_count(system: SeededSystem) -> None:
    breaker = CircuitBreaker(
        system, "db", max_failures=1, is_failure=lambda error: not isinstance(error, ConnectionError)
    )

    open_it(breaker)

    assert breaker.state is CLOSED


def test_an_exception_in_is_failure_counts_as_a_failure(system: SeededSystem) -> None:
    breaker = CircuitBreaker(system, "db", max_failures=1, is_failure=lambda _: bool(1 / 0))

    open_it(breaker, failures=1)

    assert breaker.state is OPEN


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_trial_call_is_a_failure(
    system: SeededSystem, breaker: CircuitBreaker, error: type[BaseException]
) -> None:
    def interrupted() -> None:
        raise error

    open_it(breaker)
    system.advance(1_000)

    with pytest.raises(error):
        breaker.call(interrupted)

    assert breaker.state is OPEN


def test_each_state_change_is_reported(system: SeededSystem, breaker: CircuitBreaker) -> None:
    changes: list[str] = []
    events: list[CircuitBreakerChanged] = []
    system.event_stream.subscribe(events.append, CircuitBreakerChanged)
    breaker.on_open(lambda: changes.append("open"))
    breaker.on_open(broken)
    breaker.on_open(lambda: changes.append("open too"))
    breaker.on_half_open(lambda: changes.append("half open"))
    breaker.on_close(lambda: changes.append("closed"))

    open_it(breaker)
    system.advance(1_000)
    breaker.call(int)

    assert changes == ["open", "open too", "half open", "closed"]
    assert events == [CircuitBreakerChanged(name="db", state=state) for state in (OPEN, HALF_OPEN, CLOSED)]


def test_threads_share_a_breaker(threaded: ActorSystem) -> None:
    breaker = CircuitBreaker(threaded, "db", max_failures=3, reset_timeout="1h")
    called: list[int] = []
    begin = threading.Barrier(4)

    def call(number: int) -> None:
        begin.wait(5)
        for _ in range(50):
            with contextlib.suppress(ConnectionError, CircuitBreakerOpenError):
                breaker.call(count, number)

    def count(number: int) -> None:
        called.append(number)
        broken()

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert breaker.state is OPEN
    # Calls already in flight when the breaker opened may finish.
    assert 3 <= len(called) <= 6


def test_inconsistent_settings_are_refused(system: SeededSystem) -> None:
    with pytest.raises(ValueError, match="max_failures must be at least 1, not 0"):
        CircuitBreaker(system, "db", max_failures=0)
    with pytest.raises(ValueError, match="exponential_backoff_factor"):
        CircuitBreaker(system, "db", exponential_backoff_factor=0.5)
