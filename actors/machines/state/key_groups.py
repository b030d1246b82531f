"""Key groups: the units in which keyed state is owned and moved (Flink's KeyGroupRangeAssignment).

A key belongs to one of `max_parallelism` groups for ever; which subtask owns a group follows from the parallelism.
"""

from __future__ import annotations

from flykka.actors.errors import GraphError
from flykka.messages.state.handles import KeyGroupRange

DEFAULT_LOWER_BOUND_MAX_PARALLELISM = 1 << 7
UPPER_BOUND_MAX_PARALLELISM = 1 << 15


def default_max_parallelism(parallelism: int) -> int:
    """The default number of key groups: 1.5 times the parallelism, up to a power of two, in bounds."""
    wanted = parallelism + parallelism // 2
    rounded = 1 << (wanted - 1).bit_length()
    return min(max(rounded, DEFAULT_LOWER_BOUND_MAX_PARALLELISM), UPPER_BOUND_MAX_PARALLELISM)


def key_group_of(key_hash: int, max_parallelism: int) -> int:
    """The key group of a key. Hashes may be negative; rows are hashed by Spark (`KeyGroups` of the bridge)."""
    return key_hash % max_parallelism


def owner(key_group: int, max_parallelism: int, parallelism: int) -> int:
    assert 0 <= key_group < max_parallelism, f"key group {key_group} of {max_parallelism}"
    return key_group * parallelism // max_parallelism


def key_groups_of(subtask: int, max_parallelism: int, parallelism: int) -> KeyGroupRange:
    """The key groups that a subtask owns: neighbours, at least one."""
    assert 0 <= subtask < parallelism <= max_parallelism, (
        f"subtask {subtask} of {parallelism}, at most {max_parallelism}"
    )
    return KeyGroupRange(
        start=-(-subtask * max_parallelism // parallelism), end=((subtask + 1) * max_parallelism - 1) // parallelism
    )


def key_group_range(start: int, end: int) -> KeyGroupRange | None:
    """The key groups from `start` to `end`, None where there are none. Raises `GraphError` where they begin below 0."""
    if start < 0:
        raise GraphError(f"there are no key groups from {start} to {end}: the first one is 0")
    return KeyGroupRange(start=start, end=end) if start <= end else None


def groups_in(key_groups: KeyGroupRange) -> range:
    return range(key_groups.start, key_groups.end + 1)


def covers(outer: KeyGroupRange, inner: KeyGroupRange) -> bool:
    return inner.start in groups_in(outer) and inner.end in groups_in(outer)


def intersection(left: KeyGroupRange, right: KeyGroupRange) -> KeyGroupRange | None:
    """The key groups that are in both ranges, None where there are none."""
    return key_group_range(max(left.start, right.start), min(left.end, right.end))
