"""The parallelism of operators that take what the slots give (Flink's ExecutionConfig.PARALLELISM_AUTO_MAX).

Groups of operators that share no slots stand beside each other: what those leave that know their parallelism, the
others share evenly.
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
    """The parallelism of each operator: its own, the default's, or what of so many slots its group gets.

    Raises:
        ProgramError: one takes what the slots give, and their number is not known.
    """
    wanted = {made: made.parallelism or made.parallelism_limit or default for made in transformations}
    if PARALLELISM_AUTO_MAX not in wanted.values():
        return wanted
    if slots is None:
        first = next(made for made, own in wanted.items() if own == PARALLELISM_AUTO_MAX)
        raise ProgramError(
            f"the parallelism of {first} is what the slots give, and nobody has said how many there are: give"
            " slots_per_task_manager"
        )
    share = _share_of_a_group(wanted, _groups(transformations), slots)
    return {made: _within(made, share) if own == PARALLELISM_AUTO_MAX else own for made, own in wanted.items()}


def _share_of_a_group(wanted: Mapping[Transformation, int], groups: Mapping[Transformation, str], slots: int) -> int:
    automatic = {groups[made] for made, own in wanted.items() if own == PARALLELISM_AUTO_MAX}
    widths: dict[str, int] = {}
    for made, own in wanted.items():
        if groups[made] not in automatic:
            widths[groups[made]] = max(own, widths.get(groups[made], 0))
    return max((slots - sum(widths.values())) // len(automatic), 1)


def _groups(transformations: Sequence[Transformation]) -> Mapping[Transformation, str]:
    """The slot sharing group of each: its own, else that of its inputs where they agree."""
    groups: dict[Transformation, str] = {}
    for made in transformations:
        of_inputs = {groups[each.source] for each in made.inputs}
        inherited = of_inputs.pop() if len(of_inputs) == 1 else _DEFAULT_GROUP
        groups[made] = made.slot_sharing_group or inherited
    return groups


def _within(made: Transformation, share: int) -> int:
    limits = [limit for limit in (made.parallelism_limit, made.max_parallelism) if limit is not None]
    return min(share, *limits) if limits else share
