"""Verbs that begin a program: streams of the rows of a source or of a DataFrame."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from flykka.api.streams.program import Program, at_least_one_if_any
from flykka.api.streams.sources import ComputedFrames, source_stream
from flykka.spark_bridge.connectors.dataframe import DataFrameSource

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.watermark_strategy import WatermarkStrategy
    from flykka.spark_bridge.program.prototype import DataFrame, SparkSession
    from flykka.spark_bridge.program.source import Source


class SourceVerbs(ABC):
    """The part of an environment that programs begin with."""

    _computed: ComputedFrames

    @property
    @abstractmethod
    def spark(self) -> SparkSession:
        """The Spark session."""

    @abstractmethod
    def _program_for_source(self) -> Program:
        """The program that a source is written into. Raises `ProgramError` where there can be none."""

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy | None = None,
        name: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """A stream of the rows of `source`, called after it if nothing else; without a strategy, no watermarks.

        A schema that is not declared is taken now from what is there, and stays.

        Raises:
            ProgramError: this is no source, or no watermark strategy, or the uid is empty, or the environment closed.
            StreamTypeError: the event-time column is not there, or is no timestamp; a field cannot be computed.
            DuplicateUidError: another operator has the uid.
            SourceError: the source has no schema to be read from it.
        """
        return source_stream(self._program_for_source(), self.spark, source, watermark_strategy, name, uid)

    def from_dataframe(
        self,
        frame: DataFrame,
        watermark_strategy: WatermarkStrategy | None = None,
        name: str | None = None,
        uid: str | None = None,
        *,
        partitions_per_batch: int | None = None,
    ) -> DataStream:
        """A stream of the rows of a DataFrame, which are computed now and kept until their job is over.

        So a job that restarts reads the same rows again. A batch is a group of the DataFrame's Spark partitions, as
        many as there are cores where `partitions_per_batch` does not say. A checkpoint tells which partitions were
        read: to continue from it in another process, the DataFrame must give the same rows in the same partitions
        there. One that was sorted, or read from files that do not change, does; after a shuffle it need not.

        Raises:
            ProgramError: this is no DataFrame of this Spark session, or a streaming one, or the number is below 1.
            StreamTypeError: the event-time column is not there, or is no timestamp.
            DuplicateUidError: another operator has the uid.
        """
        program = self._program_for_source()
        limit = at_least_one_if_any(partitions_per_batch, "partitions per batch")
        source = DataFrameSource(computed=self._computed.keep(self.spark, frame), partitions_limit=limit)
        return source_stream(program, self.spark, source, watermark_strategy, name, uid)
