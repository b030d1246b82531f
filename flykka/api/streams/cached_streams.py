"""Cached streams of one environment, and what they become in a job (Flink's CacheTransformation).

A cached stream outlives the program that it was written down in: streams are made of it in every later one. In the
operators it is one operator, with all that leads to it. When a job is made, this is taken for what it is then: a source
where the rows are kept, and else an operator, with a sink behind it that keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING

from flykka.api.streams.transformation import Input, Transformation, leading_to, origins
from flykka.errors import DuplicateUidError
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.connectors.dataset import CacheCode, DatasetSink, DatasetSource
from flykka.spark_bridge.operators.sink_code import SinkCode
from flykka.spark_bridge.operators.source import SourceCode
from flykka.spark_bridge.operators.stateless import unchanged

if TYPE_CHECKING:
    from flykka.api.streams.stream_type import StreamType
    from flykka.client.datasets import ClusterDatasets


class CachedStreams:
    """The cached streams of one environment, whose `datasets` are kept in folders below `folder()`.

    A program by itself keeps nothing.
    """

    def __init__(self, datasets: ClusterDatasets | None = None, folder: Callable[[], str] = lambda: "datasets") -> None:
        self._datasets = datasets
        self._folder = folder
        self._numbers = count(1)

    def transformation(self, inputs: tuple[Input, ...], row_type: StreamType, position: int) -> Transformation:
        """The operator of a cached stream, at this position of its program."""
        uid = f"cached-{next(self._numbers)}"
        code = CacheCode(
            function=unchanged,
            dataset_id=blake2b(uid.encode(), digest_size=16).hexdigest(),
            schema=row_type.prototype.schema,
            event_time=row_type.event_time,
        )
        return Transformation(
            kind=code.kind,
            position=position,
            name=f"cached {origins(inputs)}",
            code=code,
            inputs=inputs,
            explicit_uid=uid,
        )

    def invalidate(self, made: Transformation) -> None:
        """Let go of the rows of a cached stream."""
        assert isinstance(made.code, CacheCode), f"{made} is no cached stream"
        if self._datasets is not None:
            self._datasets.release(made.code.dataset_id)

    def resolved(self, written: Sequence[Transformation], job: int) -> tuple[Transformation, ...]:
        """The operators of a job, its number in the environment, of those that lead to sinks in its program.

        Raises:
            DuplicateUidError: an operator of another program that leads to a cached stream has the uid of one here.
            ProgramError: another job still computes what is to be read.
        """
        sinks = tuple(Input(source=made) for made in written if made.kind is OperatorKind.SINK)
        sources: dict[Transformation, DatasetSource | None] = {}

        def is_kept(made: Transformation) -> bool:
            if isinstance(made.code, CacheCode) and made not in sources:
                sources[made] = self._source(made.code)
            return sources.get(made) is not None

        operators = leading_to(sinks, is_kept)
        if not sources:
            return tuple(written)
        of_job = _JobOperators(frozenset(written), job, self._folder(), sources)
        for made in operators:
            of_job.add(made)
        return of_job.checked()

    def _source(self, code: CacheCode) -> DatasetSource | None:
        kept = None if self._datasets is None else self._datasets.find(code.dataset_id)
        return None if kept is None else DatasetSource.of(code, kept.folder, is_empty=kept.is_empty)


class _JobOperators:
    """The operators of one job, made of those of a program and of what cached streams of earlier ones are made of."""

    def __init__(
        self,
        own: frozenset[Transformation],
        job: int,
        folder: str,
        sources: Mapping[Transformation, DatasetSource | None],
    ) -> None:
        self._own = own
        self._job = job
        self._folder = folder
        self._sources = sources
        self._made: dict[Transformation, Transformation] = {}
        self._keeping: list[Transformation] = []
        taken = {made.position for made in own}
        self._positions = (position for position in count(1) if position not in taken)

    def add(self, made: Transformation) -> None:
        """Take an operator in; its inputs are there."""
        source = self._sources.get(made)
        if source is not None:
            self._made[made] = self._reading(made, source)
            return
        inputs = tuple(replace(each, source=self._made[each.source]) for each in made.inputs)
        if isinstance(made.code, CacheCode):
            self._made[made] = self._passing(made, inputs)
            self._keeping.append(self._sink(self._made[made], made.code))
        elif made not in self._own and made.has_automatic_uid:
            self._made[made] = replace(made, inputs=inputs, position=next(self._positions))
        else:
            self._made[made] = replace(made, inputs=inputs)

    def checked(self) -> tuple[Transformation, ...]:
        """All of them. Raises `DuplicateUidError` where two have one uid."""
        by_uid: dict[str, Transformation] = {}
        for made in (*self._made.values(), *self._keeping):
            other = by_uid.setdefault(made.uid, made)
            if other is not made:
                raise DuplicateUidError(
                    f"the uid {made.uid!r} is that of {made.name!r} ({made.call_site}) and of {other.name!r}"
                    f" ({other.call_site}), one of which leads to a cached stream: give each operator one of its own"
                )
        return tuple(by_uid.values())

    def _uid(self, made: Transformation) -> str:
        """A uid for this job: others may read the same rows at the same time."""
        return f"{made.uid}-{self._job}"

    def _reading(self, made: Transformation, source: DatasetSource) -> Transformation:
        has_time = source.event_time is not None
        return replace(
            made,
            kind=OperatorKind.SOURCE,
            code=SourceCode(source=source, watermark_delay_ms=0 if has_time else None),
            watermark_delay_ms=0 if has_time else None,
            inputs=(),
            explicit_uid=self._uid(made),
            parallelism=_parallelism(made),
        )

    def _passing(self, made: Transformation, inputs: tuple[Input, ...]) -> Transformation:
        return replace(made, inputs=inputs, explicit_uid=self._uid(made), parallelism=_parallelism(made))

    def _sink(self, made: Transformation, code: CacheCode) -> Transformation:
        sink = DatasetSink.of(code.dataset_id, self._folder)
        return Transformation(
            kind=OperatorKind.SINK,
            position=made.position,
            name=str(sink),
            code=SinkCode(sink=sink),
            inputs=(Input(source=made, call_site=made.call_site),),
            publishes_per_checkpoint=True,
            explicit_uid=f"{made.uid}-sink",
            parallelism=made.parallelism,
            call_site=made.call_site,
        )


def _parallelism(made: Transformation) -> int | None:
    """The parallelism of what a cached stream comes from, as far as it is said there."""
    if len(made.inputs) != 1:
        return None
    source = made.inputs[0].source
    while source.code.reads_side_output is not None:
        source = source.inputs[0].source
    return (
        _parallelism(source) if isinstance(source.code, CacheCode) else source.parallelism or source.parallelism_limit
    )
