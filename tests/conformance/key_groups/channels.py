"""The channel to which a record is sent."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any
from zlib import crc32

from flykka.actors.machines.exchange.channel_selectors import channel_selector
from flykka.actors.machines.state.key_groups import key_group_of, owner
from flykka.messages.graph.job_graph import ShipStrategy
from tests.conformance.case_files import UnknownWordError, only_known_words

_DRAWS = 100


def keyed_channel(given: dict[str, Any], expect: dict[str, Any]) -> None:
    """Check records by the hash of their key. Any hash is allowed, because rows have Spark's hash."""
    only_known_words("given", given, {"max_parallelism", "records", "key", "channels"})
    if given["key"] != "first field":
        raise UnknownWordError(f"key {given['key']!r}")
    groups = [key_group_of(crc32(str(key).encode()), given["max_parallelism"]) for key, *_ in given["records"]]
    for channels in _listed(given["channels"]):
        selected = [owner(group, given["max_parallelism"], channels) for group in groups]
        for word, wanted in expect.items():
            match word:
                case "both_records_same_channel":
                    assert (len(set(selected)) == 1) == wanted
                case "always_in_range":
                    assert all(0 <= channel < channels for channel in selected) == wanted
                case _:
                    raise UnknownWordError(word)


def selector(given: dict[str, Any], expect: dict[str, Any]) -> None:
    only_known_words("given", given, {"partitioner", "channels", "records"})
    for channels in _listed(given["channels"]):
        for first in range(min(channels, _DRAWS)):
            _check(_selected(given, channels, first), channels, expect)


def _selected(given: dict[str, Any], channels: int, first: int) -> list[int]:
    try:
        strategy = ShipStrategy(given["partitioner"].upper())
    except ValueError as unknown:
        raise UnknownWordError(f"partitioner {given['partitioner']!r}") from unknown
    selects = channel_selector(strategy, channels, first=first, draw=Random(first).randrange)
    selected = []
    for _ in range(given["records"]):
        [channel] = selects()
        selected.append(channel)
    return selected


def _check(selected: list[int], channels: int, expect: dict[str, Any]) -> None:
    for word, wanted in expect.items():
        match word:
            case "channels":
                assert selected == wanted
            case "first" if wanted == f"any of 0..{channels - 1}":
                assert selected[0] in range(channels)
            case "then" if wanted == f"each next = previous + 1 modulo {channels}":
                steps = pairwise(selected)
                assert all(following == (previous + 1) % channels for previous, following in steps)
            case "always_in_range":
                assert all(0 <= channel < channels for channel in selected) == wanted
            case "single_channel":
                assert channels > 1 or set(selected) == {wanted}
            case _:
                raise UnknownWordError(f"{word}: {wanted}")


def _listed(channels: int | list[int]) -> list[int]:
    return [channels] if isinstance(channels, int) else channels
