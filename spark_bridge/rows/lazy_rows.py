"""Rows of a few small splits that nothing has read yet: the stage that their batch goes to reads them.

A source's stage that only hands its rows on costs a Spark job, and copies them into blocks. Where several small batches
go through one stage, those of one source are one scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.tasks.source import SourceSplit
    from flykka.spark_bridge.rows.materialise import Slices


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LazyRows:
    """Splits of the source operator `uid`, the function that reads such, and the numbers of their rows.

    Implements `Storage`: nothing lies anywhere for them. The latest event time is in ms; None: no row has one, or
    nobody asks.
    """

    uid: str
    splits: tuple[SourceSplit, ...]
    read: Callable[[tuple[SourceSplit, ...]], Slices]
    rows: int
    size_bytes: int
    event_time_max: int | None

    @property
    def rdd_id(self) -> None:
        """No RDD."""

    def is_whole(self) -> bool:
        """True: they can be read whenever they are asked for."""
        return True

    def free(self) -> None:
        """There is nothing to free."""


def slices_of(batches: Iterable[DataFrame | LazyRows]) -> Iterator[tuple[str | None, Slices]]:
    """Return the rows of batches as frames, read now where they are lazy, with the uid of the source then."""
    lazy: dict[tuple[str, Callable[[tuple[SourceSplit, ...]], Slices]], list[SourceSplit]] = {}
    for each in batches:
        if isinstance(each, LazyRows):
            lazy.setdefault((each.uid, each.read), []).extend(each.splits)
        else:
            yield None, (each,)
    for (uid, read), splits in lazy.items():
        yield uid, read(tuple(splits))
