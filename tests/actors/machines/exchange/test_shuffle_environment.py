"""The TaskManager's buffers are divided among its tasks. A task without enough buffers is refused."""

from __future__ import annotations

import pytest

from flykka.actors.errors import NetworkBuffersExhaustedError
from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings, ShuffleEnvironment
from flykka.messages.tasks.exchange import TaskBuffers
from flykka.messages.wire.ids import ExecutionAttemptId

A, B = ExecutionAttemptId("a"), ExecutionAttemptId("b")


def with_buffers(count: int | None, **settings: int) -> ShuffleEnvironment:
    return ShuffleEnvironment(NetworkSettings(network_buffers=count, **settings))


def test_a_task_gets_its_maximum_of_buffers_without_a_configured_total() -> None:
    environment = with_buffers(None)

    buffers = environment.register_task(A, [4], [2, 1])

    assert buffers == TaskBuffers(outputs=(7,), floating=(2, 2), exclusive=2)
    assert environment.is_settled


def test_a_task_that_needs_all_buffers_gets_its_minimum() -> None:
    environment = with_buffers(9)

    buffers = environment.register_task(A, [2], [3])

    assert buffers == TaskBuffers(outputs=(3,), floating=(0,), exclusive=2)


def test_a_task_without_enough_buffers_is_refused_and_holds_none() -> None:
    environment = with_buffers(8)

    with pytest.raises(NetworkBuffersExhaustedError, match="required 9, but only 8 available"):
        environment.register_task(A, [2], [3])

    assert environment.buffers.promised == 0
    environment.register_task(A, [1], [3])
    environment.check()


def test_tasks_share_buffers_and_are_notified_when_one_of_them_ends() -> None:
    environment = with_buffers(8, floating_buffers_per_gate=4)
    environment.register_task(A, [1], [])
    environment.register_task(B, [1], [])
    shared = environment.take_resized()

    environment.unregister_task(B)

    assert {attempt: buffers.outputs for attempt, buffers in shared.items()} == {A: (4,), B: (4,)}
    assert {attempt: buffers.outputs for attempt, buffers in environment.take_resized().items()} == {A: (6,)}
    environment.check()


def test_a_task_returns_its_exclusive_buffers_at_its_end() -> None:
    environment = with_buffers(6)
    environment.register_task(A, [], [3])

    environment.unregister_task(A)
    environment.unregister_task(A)

    assert (environment.buffers.free, environment.buffers.promised) == (6, 0)


def test_bytes_are_shared_in_proportion_to_buffers() -> None:
    environment = with_buffers(10, network_memory_bytes=1_000)

    assert environment.register_task(A, [1], []).bytes_per_buffer == 100


def test_buffers_of_ten_thousand_tasks_are_assigned_in_linear_time() -> None:
    environment = with_buffers(None)

    for number in range(10_000):
        environment.register_task(ExecutionAttemptId(f"{number}"), [2], [2])

    assert environment.is_settled
    assert environment.take_resized() == {}
