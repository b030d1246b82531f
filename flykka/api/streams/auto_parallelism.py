"""The parallelism of operators that use all slots (Flink's ExecutionConfig.PARALLELISM_AUTO_MAX).

Slot sharing groups run side by side, each in its own slots. Slots that are not needed by groups with a fixed
parallelism are divided evenly among the other groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from flykka.errors import ProgramError

if TYPE_CHECKING:
    from flykka.api.streams.transformation import Transformation

PARALLELISM_AUTO_MAX = 2**31 - 1
AUTO = "auto"
_DEFAULT_GROUP = "default"


def parallelism_of(
    transformations: Sequence[Transformation], default: int, slots: int | None
) -> Mapping[Transformation, int]:
    """Return the parallelism of each operator: its own, the default, or its group's share of the slots.

    Raises:
        ProgramError: an operator uses all slots, and the number of slots is unknown.
    """
    requested = {
        operator: operator.parallelism or operator.parallelism_limit or default for operator in transformations
    }
    if PARALLELISM_AUTO_MAX not in requested.values():
        return requested
    if slots is None:
        first = next(operator for operator, own in requested.items() if own == PARALLELISM_AUTO_MAX)
        raise ProgramError(
            f"the parallelism of {first} depends on the number of slots, which is not set: give slots_per_task_manager"
        )
    share = _share_of_a_group(requested, _groups(transformations), slots)
    return {
        operator: _within(operator, share) if own == PARALLELISM_AUTO_MAX else own
        for operator, own in requested.items()
    }


def _share_of_a_group(requested: Mapping[Transformation, int], groups: Mapping[Transformation, str], slots: int) -> int:
    automatic = {groups[operator] for operator, own in requested.items() if own == PARALLELISM_AUTO_MAX}
    widths: dict[str, int] = {}
    for operator, own in requested.items():
        if groups[operator] not in automatic:
            widths[groups[operator]] = max(own, widths.get(groups[operator], 0))
    return max((slots - sum(widths.values())) // len(automatic), 1)


def _groups(transformations: Sequence[Transformation]) -> Mapping[Transformation, str]:
    """Return the slot sharing group of each operator: its own group, else the group of its inputs if they agree."""
    groups: dict[Transformation, str] = {}
    for operator in transformations:
        of_inputs = {groups[each.source] for each in operator.inputs}
        inherited = of_inputs.pop() if len(of_inputs) == 1 else _DEFAULT_GROUP
        groups[operator] = operator.slot_sharing_group or inherited
    return groups


def _within(operator: Transformation, share: int) -> int:
    limits = [limit for limit in (operator.parallelism_limit, operator.max_parallelism) if limit is not None]
    return min(share, *limits) if limits else share
