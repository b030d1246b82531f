"""Tests the set of known file names: it is exact, and small even for many names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.spark_bridge.connectors.file.split_discovery import KnownNames
from flykka.spark_bridge.errors import SourceError

pytestmark = pytest.mark.slow

NAMES = st.lists(st.text("a09.-/", min_size=1, max_size=6) | st.integers(0, 30).map(lambda n: f"part-{n:05d}.json"))


def known_after_restore(names: list[str]) -> set[str]:
    known = KnownNames()
    for name in names:
        known.add(name)
    restored = KnownNames.decode(known.encode())
    again = KnownNames.decode(restored.encode())
    assert len(known) == len(restored) == len(again)
    return {name for name in (*names, "other") if name in again}


@given(names=NAMES)
def test_names_round_trip(names: list[str]) -> None:
    assert known_after_restore(names) == set(names)


def test_numbers_with_and_without_leading_zeros_are_distinct() -> None:
    names = ["8", "9", "10", "08", "09", "010", "0", "00", "1", "a1b2", "a1b3", "a2b3"]

    assert known_after_restore(names) == set(names)


def test_a_hundred_thousand_numbered_names_fit_in_few_bytes() -> None:
    names = KnownNames(f"of=7/part-{number:05d}-c000.json" for number in range(100_000))

    assert len(names.encode()) < 100


def test_empty_bytes_hold_no_names() -> None:
    assert len(KnownNames.decode(b"")) == 0


@pytest.mark.parametrize("data", [b"x", b"x\x9c\x01", KnownNames(["a"]).encode()[:-3]])
def test_damaged_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(SourceError, match="has no readable list of the files read"):
        KnownNames.decode(data)
