"""CachedDataStream: a stream whose rows are kept on the cluster, for later jobs too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.api.streams.data_stream import DataStream
from flykka.errors import ProgramError

if TYPE_CHECKING:
    from flykka.api.streams.program import Program
    from flykka.api.streams.stream_type import StreamType
    from flykka.api.streams.transformation import Transformation


class CachedDataStream(DataStream):
    """Made by `cache()`. The first job that reads it keeps its rows, which later ones read; all are batch jobs.

    It belongs to every program of its environment that is written down after it.
    """

    _next_step = "preview() shows first rows; where, select, key_by, ... go on, in this job and in later ones"

    def __init__(self, program: Program, made: Transformation, row_type: StreamType) -> None:
        super().__init__(program, made, row_type)
        program.cached.follow(self)

    def invalidate(self) -> None:
        """Let go of the rows that are kept: the next job that reads the stream computes them again.

        Jobs that read them now go on, and the rows are deleted when these are over. Where none are kept nothing
        happens.
        """
        self._program.cached.invalidate(self._inputs[0].source)

    @property
    def _transformation(self) -> Transformation:
        cached = self._inputs[0].source
        raise ProgramError(
            f"{cached.name!r} is read by several jobs, so nothing can be set on it: say it before cache(), or of what"
            " reads the stream"
        )

    def _move_to(self, program: Program) -> None:
        self._program = program
