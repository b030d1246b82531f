"""The parallelism of a vertex and its bounds (Flink's VertexParallelismInformation).

The maximum parallelism is the number of key groups. One that somebody has configured stays; one that was derived may be
replaced by that of the checkpoint the job starts from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from flykka.actors.errors import GraphError
from flykka.actors.machines.state.key_groups import UPPER_BOUND_MAX_PARALLELISM, default_max_parallelism


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexParallelism:
    """The parallelism of a vertex and its bound. Raises `GraphError` where they make no sense."""

    parallelism: int
    max_parallelism: int
    is_max_configured: bool = False

    def __post_init__(self) -> None:
        _check_max_parallelism(self.max_parallelism)
        if self.parallelism < 1:
            raise GraphError(f"the parallelism is {self.parallelism}; it must be 1 or more")
        if self.parallelism > self.max_parallelism:
            raise GraphError(
                f"the parallelism {self.parallelism} is above the maximum parallelism {self.max_parallelism};"
                " lower the one with set_parallelism(...), or raise the other with set_max_parallelism(...)"
            )

    @classmethod
    def of(cls, parallelism: int, configured_max: int | None = None) -> Self:
        """The bound that was configured, else the one derived from the parallelism."""
        bound = default_max_parallelism(parallelism) if configured_max is None else configured_max
        return cls(parallelism=parallelism, max_parallelism=bound, is_max_configured=configured_max is not None)

    def may_become(self, max_parallelism: int) -> bool:
        """True if the maximum may be replaced by this one. Raises `GraphError` where it cannot be one."""
        _check_max_parallelism(max_parallelism)
        return not self.is_max_configured

    def with_max_parallelism(self, max_parallelism: int) -> Self:
        """With another maximum. Raises `GraphError` where this one was configured, or the other makes no sense."""
        if not self.may_become(max_parallelism):
            raise GraphError(
                f"the maximum parallelism was set to {self.max_parallelism} and cannot become {max_parallelism}"
            )
        return replace(self, max_parallelism=max_parallelism)


def _check_max_parallelism(max_parallelism: int) -> None:
    if not 1 <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise GraphError(
            f"the maximum parallelism is {max_parallelism}; it must be between 1 and {UPPER_BOUND_MAX_PARALLELISM}"
        )
