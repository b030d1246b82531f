"""Removes expired state, when a function accesses it or a backend rewrites state anyway."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from flykka.spark_bridge.functions.equal_values import entries_of
from flykka.spark_bridge.functions.state_columns import StateColumns
from flykka.spark_bridge.functions.state_descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor

Remaining = tuple[Any, Any] | None
"""The remaining value and its times, both None if nothing remains. None instead of the pair if nothing has expired."""


def remove_expired(
    descriptors: Iterable[StateDescriptor], columns: StateColumns, *, watermark_ms: int, processing_time_ms: int
) -> set[int]:
    """Remove expired values, elements and entries, and return the slots with removed state.

    These slots are also added to `changed`. Values written before their state had a time-to-live do not expire.
    """
    lost: set[int] = set()
    for descriptor in descriptors:
        if descriptor.ttl is not None:
            expired_to = descriptor.ttl.expired_to(watermark_ms=watermark_ms, processing_time_ms=processing_time_ms)
            values, touched = columns.values[descriptor.name], columns.touched_ms[descriptor.name]
            remove = _removal(descriptor)
            for slot, times in enumerate(touched):
                if times is not None and (remaining := remove(values[slot], times, expired_to)) is not None:
                    values[slot], touched[slot] = remaining
                    lost.add(slot)
    columns.changed |= lost
    return lost


def unexpired_elements(elements: list[Any], times: list[int], expired_to: int) -> Remaining:
    if min(times) > expired_to:
        return None
    remaining = [pair for pair in zip(elements, times, strict=True) if pair[1] > expired_to]
    return ([element for element, _ in remaining], [time for _, time in remaining]) if remaining else (None, None)


def unexpired_entries(entries: dict[Any, Any], times: dict[Any, int], expired_to: int) -> Remaining:
    if min(times.values()) > expired_to:
        return None
    remaining = {key: time for key, time in times.items() if time > expired_to}
    return ({key: entries[key] for key in remaining}, remaining) if remaining else (None, None)


def _removal(descriptor: StateDescriptor) -> Callable[[Any, Any, int], Remaining]:
    match descriptor:
        case ListStateDescriptor():
            return unexpired_elements
        case MapStateDescriptor():
            as_dict = partial(entries_of, normalised_key=descriptor.normalised_key)
            return lambda entries, times, expired_to: unexpired_entries(as_dict(entries), as_dict(times), expired_to)
        case _:
            return lambda _, time, expired_to: None if time > expired_to else (None, None)
