"""Key groups: the units in which keyed state is owned and moved (Flink's KeyGroupRangeAssignment).

A key belongs to one of `max_parallelism` groups for ever; which subtask owns a group follows from the parallelism.
"""

from __future__ import annotations

from flykka.messages.state import KeyGroupRange


def owner(key_group: int, max_parallelism: int, parallelism: int) -> int:
    """The subtask that owns a key group."""
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


def intersection(left: KeyGroupRange, right: KeyGroupRange) -> KeyGroupRange | None:
    """The key groups that are in both ranges, None where there are none."""
    start, end = max(left.start, right.start), min(left.end, right.end)
    return KeyGroupRange(start=start, end=end) if start <= end else None
