"""Removes state that has expired: where it is met by a function, or where a backend rewrites state anyway."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from flykka.spark_bridge.functions.equal_values import entries_of
from flykka.spark_bridge.functions.state_columns import StateColumns
from flykka.spark_bridge.functions.state_descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor

Left = tuple[Any, Any] | None
"""The value that is left, and its times, None for nothing; None where nothing has expired."""


def remove_expired(
    descriptors: Iterable[StateDescriptor], columns: StateColumns, *, watermark_ms: int, processing_time_ms: int
) -> set[int]:
    """Remove values, elements and entries that have expired, and return the slots that have lost some.

    These slots are `changed`, too. What was written before its state had a time-to-live does not expire.
    """
    lost: set[int] = set()
    for descriptor in descriptors:
        if descriptor.ttl is not None:
            expired_to = descriptor.ttl.expired_to(watermark_ms=watermark_ms, processing_time_ms=processing_time_ms)
            values, touched = columns.values[descriptor.name], columns.touched_ms[descriptor.name]
            remove = _removal(descriptor)
            for slot, times in enumerate(touched):
                if times is not None and (left := remove(values[slot], times, expired_to)) is not None:
                    values[slot], touched[slot] = left
                    lost.add(slot)
    columns.changed |= lost
    return lost


def unexpired_elements(elements: list[Any], times: list[int], expired_to: int) -> Left:
    """Return the elements of a list, and their times, without those that have expired."""
    if min(times) > expired_to:
        return None
    left = [pair for pair in zip(elements, times, strict=True) if pair[1] > expired_to]
    return ([element for element, _ in left], [time for _, time in left]) if left else (None, None)


def unexpired_entries(entries: dict[Any, Any], times: dict[Any, int], expired_to: int) -> Left:
    """Return the entries of a map, and their times, without those that have expired."""
    if min(times.values()) > expired_to:
        return None
    left = {key: time for key, time in times.items() if time > expired_to}
    return ({key: entries[key] for key in left}, left) if left else (None, None)


def _removal(descriptor: StateDescriptor) -> Callable[[Any, Any, int], Left]:
    match descriptor:
        case ListStateDescriptor():
            return unexpired_elements
        case MapStateDescriptor():
            as_dict = partial(entries_of, normalised_key=descriptor.normalised_key)
            return lambda entries, times, expired_to: unexpired_entries(as_dict(entries), as_dict(times), expired_to)
        case _:
            return lambda _, time, expired_to: None if time > expired_to else (None, None)
