"""Stories identify messages by their tags, even if this process lacks their classes, so each tag must exist."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules

import pytest

import flykka.messages
from flykka.messages.wire.tags import registered
from flykka.traces import attempt_story, checkpoint_story, job_story
from flykka.traces.selection import KINDS, patterns_of


@pytest.fixture(scope="module")
def tags() -> set[str]:
    for module in iter_modules(flykka.messages.__path__):
        import_module(f"flykka.messages.{module.name}")
    return set(registered())


@pytest.mark.parametrize(
    "named_tags",
    [
        attempt_story.STEPS,
        attempt_story.CHECKPOINTS,
        checkpoint_story.STEPS,
        checkpoint_story.FAILURES,
        job_story.JOB_MESSAGES,
        job_story.ANNOUNCEMENTS,
    ],
    ids=["attempt", "checkpoints of attempts", "checkpoint", "failures", "job", "announcements"],
)
def test_every_tag_belongs_to_a_message(named_tags: Iterable[str], tags: set[str]) -> None:
    assert set(named_tags) <= tags


def test_every_kind_of_message_has_a_tag(tags: set[str]) -> None:
    classes = {kind.__name__ for kind in registered().values()}

    for name in KINDS:
        starts = [pattern.strip("*") for pattern in patterns_of([name])]
        assert all(any(start in known for known in classes) for start in starts)
