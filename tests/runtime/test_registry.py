"""Refs are removed from Pykka's registry in batches, because removing them one by one takes quadratic time."""

from __future__ import annotations

import pytest
from pykka import ActorRegistry

from flykka.runtime import pykka_seam
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import scripted_actor


def test_unregistering_many_actors_takes_one_pass(system: SeededSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pykka_seam, "_AT_ONCE", 0)
    # The number of live actors decides when to sweep, so no actor of another test may be left.
    monkeypatch.setattr(ActorRegistry, "_actor_refs", [])
    refs = [system.spawn(scripted_actor([]), f"a{number}") for number in range(40)]
    before = len(ActorRegistry.get_all())

    refs[0].stop()
    assert len(ActorRegistry.get_all()) == before
    for ref in refs[1:]:
        ref.stop()

    assert len(ActorRegistry.get_all()) < before - 30
    pykka_seam.sweep()
    assert not set(refs) & set(ActorRegistry.get_all())
