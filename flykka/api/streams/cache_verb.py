"""The verb that keeps rows for later jobs, by Flink's name."""

from __future__ import annotations

from abc import ABC
from dataclasses import replace
from typing import TYPE_CHECKING

from flykka.api.streams.changelog import APPEND_ONLY
from flykka.api.streams.transformation import origins
from flykka.errors import ProgramError
from flykka.spark_bridge.connectors.dataset import as_kept

if TYPE_CHECKING:
    from flykka.api.streams.cached_data_stream import CachedDataStream
    from flykka.api.streams.program import Program
    from flykka.api.streams.stream_type import StreamType
    from flykka.api.streams.transformation import Input


class CacheVerb(ABC):
    """A stream whose rows can be kept."""

    _program: Program
    _inputs: tuple[Input, ...]
    _type: StreamType

    def cache(self) -> CachedDataStream:
        """Keep the rows on the cluster, for this job and for later ones of the environment: batch jobs alone.

        The first job that reads the stream computes its rows and writes them, as parquet, into a folder beside the
        checkpoints. When it has finished, later jobs read them from there, in no order, and compute nothing of what
        leads here. Where they are gone, because the job has failed, somebody has deleted them, or by `invalidate()`,
        the next job computes them again. They are deleted when the environment is closed.

        Raises:
            ProgramError: rows of the stream take the place of earlier ones, which needs their order.
        """
        from flykka.api.streams.cached_data_stream import CachedDataStream

        if self._type.changelog != APPEND_ONLY:
            raise ProgramError(
                f"cache() after {origins(self._inputs)} would keep rows in no order, and here a row takes the place of"
                f" an earlier one ({self._type.changelog}): cache what comes before"
            )
        row_type = replace(self._type, prototype=as_kept(self._type.prototype))
        made = self._program.cached.added(self._program, self._inputs, row_type)
        return CachedDataStream(self._program, made, row_type)
