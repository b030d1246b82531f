"""Garbage collection is rarer while a cluster runs, and has the former frequency after the cluster has ended."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.garbage_collection import YOUNG_OBJECTS, raise_gc_threshold, restore_gc_threshold
from flykka.cluster.local_cluster import LocalCluster
from tests.actors.whole_cluster import Names


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_the_gc_threshold_is_raised_from_the_first_cluster_to_the_last() -> None:
    with LocalCluster(Names(), ClusterSettings()):
        with LocalCluster(Names(), ClusterSettings()):
            pass
        while_one_runs = gc.get_threshold()

    assert while_one_runs == (YOUNG_OBJECTS, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("chosen", [(0, 10, 10), (2 * YOUNG_OBJECTS, 5, 5)], ids=["disabled", "longer timeout"])
def test_a_custom_gc_threshold_is_not_changed(chosen: tuple[int, int, int]) -> None:
    gc.set_threshold(*chosen)

    raise_gc_threshold()
    meanwhile = gc.get_threshold()
    restore_gc_threshold()

    assert (meanwhile, gc.get_threshold()) == (chosen, chosen)


def test_a_gc_threshold_changed_while_a_cluster_runs_is_preserved() -> None:
    raise_gc_threshold()
    gc.set_threshold(1_000, 5, 5)

    restore_gc_threshold()

    assert gc.get_threshold() == (1_000, 5, 5)
