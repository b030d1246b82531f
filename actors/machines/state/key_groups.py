"""Key groups: the units in which keyed state is owned and redistributed (Flink's KeyGroupRangeAssignment).

A key always belongs to the same one of `max_parallelism` groups. The parallelism determines which subtask owns a group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from flykka.actors.errors import GraphError
from flykka.messages.state.handles import KeyGroupRange

DEFAULT_LOWER_BOUND_MAX_PARALLELISM = 1 << 7
UPPER_BOUND_MAX_PARALLELISM = 1 << 15


def default_max_parallelism(parallelism: int) -> int:
    """Return the default number of key groups: 1.5 times the parallelism, rounded up to a power of 2, within bounds."""
    minimum = parallelism + parallelism // 2
    rounded = 1 << (minimum - 1).bit_length()
    return min(max(rounded, DEFAULT_LOWER_BOUND_MAX_PARALLELISM), UPPER_BOUND_MAX_PARALLELISM)


def key_group_of(key_hash: int, max_parallelism: int) -> int:
    """Return the key group of a key. Hashes may be negative; Spark hashes the rows (`KeyGroups` of the bridge)."""
    return key_hash % max_parallelism


def owner(key_group: int, max_parallelism: int, parallelism: int) -> int:
    assert 0 <= key_group < max_parallelism, f"key group {key_group} is not from 0 to {max_parallelism - 1}"
    return key_group * parallelism // max_parallelism


def key_groups_of(subtask: int, max_parallelism: int, parallelism: int) -> KeyGroupRange:
    """Return the key groups that a subtask owns: at least one, and consecutive."""
    assert 0 <= subtask < parallelism <= max_parallelism, (
        f"subtask {subtask} of {parallelism}, at most {max_parallelism}"
    )
    return KeyGroupRange(
        start=-(-subtask * max_parallelism // parallelism), end=((subtask + 1) * max_parallelism - 1) // parallelism
    )


def key_group_range(start: int, end: int) -> KeyGroupRange | None:
    """Return the key groups from `start` to `end`, or `None` if empty. Raises `GraphError` if `start` is below 0."""
    if start < 0:
        raise GraphError(f"there are no key groups from {start} to {end}: the first one is 0")
    return KeyGroupRange(start=start, end=end) if start <= end else None


def groups_in(key_groups: KeyGroupRange) -> range:
    return range(key_groups.start, key_groups.end + 1)


def covers(outer: KeyGroupRange, inner: KeyGroupRange) -> bool:
    return inner.start in groups_in(outer) and inner.end in groups_in(outer)


def intersection(left: KeyGroupRange, right: KeyGroupRange) -> KeyGroupRange | None:
    return key_group_range(max(left.start, right.start), min(left.end, right.end))


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexParallelism:
    """The parallelism of a vertex and its bounds (Flink's VertexParallelismInformation).

    The maximum parallelism is the number of key groups. A configured maximum is fixed; the maximum of the checkpoint
    from which the job starts may replace a derived one.
    """

    parallelism: int
    max_parallelism: int
    is_max_configured: bool = False

    def __post_init__(self) -> None:
        _check_max_parallelism(self.max_parallelism)
        if self.parallelism < 1:
            raise GraphError(f"the parallelism is {self.parallelism}; it must be 1 or more")
        if self.parallelism > self.max_parallelism:
            raise GraphError(
                f"the parallelism {self.parallelism} is above the maximum parallelism {self.max_parallelism}: lower"
                " the parallelism with set_parallelism(...), or raise the maximum with set_max_parallelism(...)"
            )

    @classmethod
    def of(cls, parallelism: int, configured_max: int | None = None) -> Self:
        """Use the configured maximum, or else derive it from the parallelism."""
        bound = default_max_parallelism(parallelism) if configured_max is None else configured_max
        return cls(parallelism=parallelism, max_parallelism=bound, is_max_configured=configured_max is not None)

    def may_become(self, max_parallelism: int) -> bool:
        """Return True if this maximum may replace the current one. Raises `GraphError` if it is out of bounds."""
        _check_max_parallelism(max_parallelism)
        return not self.is_max_configured

    def with_max_parallelism(self, max_parallelism: int) -> Self:
        """Replace the maximum. Raises `GraphError` if it was configured, or if the new maximum is out of bounds."""
        if not self.may_become(max_parallelism):
            raise GraphError(
                f"the maximum parallelism is {self.max_parallelism} and cannot be changed to {max_parallelism}"
            )
        return replace(self, max_parallelism=max_parallelism)


def _check_max_parallelism(max_parallelism: int) -> None:
    if not 1 <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise GraphError(
            f"the maximum parallelism is {max_parallelism}; it must be between 1 and {UPPER_BOUND_MAX_PARALLELISM}"
        )
