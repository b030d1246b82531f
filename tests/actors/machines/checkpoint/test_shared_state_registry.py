"""A file of shared state is retained exactly as long as a checkpoint may refer to it."""

from __future__ import annotations

from flykka.actors.machines.checkpoint.completed_store import SharedStateRegistry
from flykka.messages.state.handles import SharedStateHandle


def handle(state_id: str, path: str = "") -> SharedStateHandle:
    return SharedStateHandle(state_id=state_id, path=path or state_id, rows=1, size_bytes=1)


def test_unreferenced_state_is_deleted_with_the_next_checkpoint() -> None:
    registry = SharedStateRegistry()
    registry.acknowledge(1, handle("x"))
    registry.acknowledge(2, handle("y"))
    registry.register(["y"])

    unused = registry.release_unused(2)

    assert unused == (handle("x"),)
    assert handle("x") not in registry


def test_release_unused_releases_only_the_named_state() -> None:
    registry = SharedStateRegistry()
    for state_id in ("x", "y"):
        registry.acknowledge(1, handle(state_id))

    unused = registry.release_unused(2, ["y", "unknown"])

    assert unused == (handle("y"),)
    assert handle("x") in registry


def test_newer_acknowledged_state_survives_the_completion_of_an_older_checkpoint() -> None:
    registry = SharedStateRegistry()
    registry.acknowledge(3, handle("x"))

    assert registry.release_unused(2) == ()
    assert registry.release_unused(3) == ()
    assert handle("x") in registry


def test_state_is_deleted_with_the_last_checkpoint_that_refers_to_it() -> None:
    registry = SharedStateRegistry()
    registry.acknowledge(1, handle("x"))
    registry.register(["x"])
    registry.register(["x"])

    registry.unregister(["x"])
    while_referenced = registry.release_unused(9)
    registry.unregister(["x"])

    assert while_referenced == ()
    assert registry.release_unused(9) == (handle("x"),)
    assert registry.release_unused(9) == ()


def test_the_first_acknowledged_file_of_a_state_is_retained() -> None:
    registry = SharedStateRegistry()
    registry.acknowledge(1, handle("x", "first"))

    kept = registry.acknowledge(2, handle("x", "second"))

    assert kept == handle("x", "first")


def test_adopted_files_are_never_released_for_deletion() -> None:
    registry = SharedStateRegistry()
    registry.adopt(7, [handle("x")])
    registry.register(["x"])

    registry.unregister(["x"])

    assert registry.release_unused() == ()
    assert handle("x") not in registry
