"""Area 09, task events: what consumers tell the producer of a partition, and who hears it."""

from __future__ import annotations

import pytest

from flykka.actors.exchange.task_event_dispatcher import TaskEventDispatcher
from tests.actors.exchange.builders import partition_id
from tests.conformance.case_files import Case, UnknownWordError, only_known_words


def run_task_events(case: Case) -> None:
    """Run a case about the dispatcher of a TaskManager."""
    only_known_words("given", case["given"], {"kind"})
    dispatcher: TaskEventDispatcher[str, str] = TaskEventDispatcher()
    for step in case["steps"]:
        only_known_words("step", step, {"do", "partition", "listener", "event", "want", "fired"})
        partition = partition_id(step.get("partition", 0))
        match step:
            case {"do": "register" | "subscribe", "want": "error"}:
                with pytest.raises(AssertionError):
                    _do(dispatcher, step)
            case {"do": "publish"}:
                heard_by = dispatcher.publish(partition, step.get("event", "any"))
                assert "want" not in step or (heard_by is not None) == step["want"]
                assert "fired" not in step or list(heard_by or ()) == step["fired"]
            case _:
                _do(dispatcher, step)
    only_known_words("expect", case["expect"], {"all_wants_hold"})


def _do(dispatcher: TaskEventDispatcher[str, str], step: Case) -> None:
    partition = partition_id(step.get("partition", 0))
    match step:
        case {"do": "register"}:
            dispatcher.register_partition(partition)
        case {"do": "unregister"}:
            dispatcher.unregister_partition(partition)
        case {"do": "clear" | "clear_all"}:
            dispatcher.clear_all()
        case {"do": "subscribe", "listener": listener, "event": event}:
            dispatcher.subscribe(partition, listener, event)
        case _:
            raise UnknownWordError(f"step: {step}")
