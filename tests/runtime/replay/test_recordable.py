"""Classes named in a trace are found in any module by their tag or by a unique name."""

from __future__ import annotations

import re
from dataclasses import is_dataclass

import pytest

from flykka.actors.machines.attempt.checkpoints import CheckpointBook
from flykka.actors.task.actor import Task
from flykka.messages.wire.tags import name_in_trace, trace_tag
from flykka.runtime.errors import UnknownTagError, UnresolvedPropsError
from flykka.runtime.replay.recordable import RecordableNames, own_names


@trace_tag("recordable_test.till")
class Till:
    """A class of a user's module, declared recordable."""


@pytest.mark.parametrize("kind", [Task, CheckpointBook, Till])
def test_a_class_is_found_by_the_name_in_a_trace(kind: type) -> None:
    assert RecordableNames().find(name_in_trace(kind)) is kind


def test_an_undeclared_tag_is_named_with_advice() -> None:
    with pytest.raises(
        UnknownTagError, match=re.escape("the trace contains the tag 'shop.till', which no imported module declares")
    ) as no:
        RecordableNames().find("shop.till")

    assert "--import MODULE" in str(no.value)
    assert "a newer flykka" in str(no.value)


@pytest.mark.parametrize("name", ["flykka.NoSuchClass", "data_plane.spark", "flykka.actors.task.actor:Task"])
def test_names_not_allowed_in_a_trace_are_refused(name: str) -> None:
    import flykka.spark_bridge.data_plane  # noqa: F401 - declares its tag.

    with pytest.raises(UnresolvedPropsError):
        RecordableNames().find(name)


def test_classes_of_actor_state_have_unique_names() -> None:
    """Frozen dataclasses, such as effects and events of state machines, are not state."""
    shared = {name: [each for each in found if _is_state(each)] for name, found in own_names().items()}

    assert {name: found for name, found in shared.items() if len(found) > 1} == {}, "give one of them a trace_tag"


def _is_state(kind: object) -> bool:
    return isinstance(kind, type) and not (is_dataclass(kind) and kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]
