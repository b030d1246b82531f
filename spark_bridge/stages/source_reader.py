"""The head of a source's chain: splits become rows, and their latest event time is known without looking at them twice.

It is taken from the statistics of the files. Where they have none it is counted below all operators of the chain: a
filter behind must not hold the watermark back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from flykka.messages.source import FileBatchSplit
from flykka.spark_bridge.code import TransformCode
from flykka.spark_bridge.errors import ChainError
from flykka.spark_bridge.sources.reading import read_sliced, read_split
from flykka.spark_bridge.stages.materialise import Slices, numbers_of
from flykka.spark_bridge.stages.row_wise import works_row_by_row
from flykka.spark_bridge.stages.windows import MICROS_PER_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.messages.source import SourceSplit
    from flykka.spark_bridge.code import SourceCode
    from flykka.spark_bridge.stages.chain import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRows:
    """The rows of some splits, and how to learn their latest event time once an action has read them."""

    slices: Slices
    rows: int
    known_event_time_max: int | None
    observations: tuple[Observation, ...]

    def event_time_max(self) -> int | None:
        """The latest event time in ms; to be asked for after the rows were computed."""
        if not self.observations:
            return self.known_event_time_max
        found = [numbers_of(observation).get("latest") for observation in self.observations]
        return max((micros // MICROS_PER_MS for micros in found if micros is not None), default=None)


class SourceReader:
    """Reads the splits of one source."""

    def __init__(self, session: SparkSession, link: Link, code: SourceCode) -> None:
        self._session = session
        self._link = link
        self._source = code.source
        self._schema = code.source.prototype(session).schema
        functions = [behind.code.function for behind in link.walk() if isinstance(behind.code, TransformCode)]
        self._slices = link.only_aggregates and works_row_by_row(session, self._schema, functions)

    def read(self, splits: tuple[SourceSplit, ...]) -> SourceRows:
        """The rows of splits as one batch."""
        slices: list[DataFrame] = []
        times: list[int | None] = []
        for split in splits:
            if not isinstance(split, FileBatchSplit):
                raise ChainError(f"the file source {self._link.uid!r} cannot read a {type(split).__name__}")
            if self._slices:
                slices += read_sliced(self._session, self._source, self._schema, split)
            else:
                slices.append(read_split(self._session, self._source, self._schema, split))
            times.append(split.event_time_max)
        rows = sum(split.rows for split in splits)
        known = [time for time in times if time is not None]
        if self._source.event_time is None or len(known) == len(times):
            return SourceRows(
                slices=tuple(slices), rows=rows, known_event_time_max=max(known, default=None), observations=()
            )
        observations, observed = zip(*(self._observed(rows) for rows in slices), strict=True)
        return SourceRows(slices=observed, rows=rows, known_event_time_max=None, observations=observations)

    def _observed(self, rows: DataFrame) -> tuple[Observation, DataFrame]:
        observation = Observation()
        assert self._source.event_time is not None
        latest = F.unix_micros(F.max(self._source.event_time).cast("timestamp"))
        return observation, rows.observe(observation, latest.alias("latest"))
