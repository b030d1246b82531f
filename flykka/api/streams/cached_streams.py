"""The cached streams of an environment, and the operators that they become in a job (Flink's CacheTransformation).

A cached stream outlives the program that defines it: all later programs may read it. In a program, a single operator
represents the stream and all operators upstream of it. When a job is built, this operator becomes a source if its rows
are cached already; otherwise a sink is added that caches its rows.
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
    """The cached streams of one environment, whose `datasets` are stored in folders below `folder()`.

    If `datasets` is None, as for a program without an environment, nothing is cached.
    """

    def __init__(self, datasets: ClusterDatasets | None = None, folder: Callable[[], str] = lambda: "datasets") -> None:
        self._datasets = datasets
        self._folder = folder
        self._numbers = count(1)

    def transformation(self, inputs: tuple[Input, ...], row_type: StreamType, position: int) -> Transformation:
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

    def invalidate(self, operator: Transformation) -> None:
        assert isinstance(operator.code, CacheCode), f"{operator} is not a cached stream"
        if self._datasets is not None:
            self._datasets.release(operator.code.dataset_id)

    def resolved(self, program: Sequence[Transformation], job: int) -> tuple[Transformation, ...]:
        """Replace cached streams in the operators that lead to sinks, for job number `job` of the environment.

        Raises:
            DuplicateUidError: an operator upstream of another program's cached stream has the uid of one of `program`.
            ProgramError: another job is still computing a cached stream that this job reads.
        """
        sinks = tuple(Input(source=operator) for operator in program if operator.kind is OperatorKind.SINK)
        sources: dict[Transformation, DatasetSource | None] = {}

        def is_kept(operator: Transformation) -> bool:
            if isinstance(operator.code, CacheCode) and operator not in sources:
                sources[operator] = self._source(operator.code)
            return sources.get(operator) is not None

        operators = leading_to(sinks, is_kept)
        if not sources:
            return tuple(program)
        of_job = _JobOperators(frozenset(program), job, self._folder(), sources)
        for operator in operators:
            of_job.add(operator)
        return of_job.checked()

    def _source(self, code: CacheCode) -> DatasetSource | None:
        dataset = None if self._datasets is None else self._datasets.find(code.dataset_id)
        return None if dataset is None else DatasetSource.of(code, dataset.folder, is_empty=dataset.is_empty)


class _JobOperators:
    """Builds the operators of one job from the operators of its program and the operators upstream of earlier cached
    streams.
    """

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
        used = {operator.position for operator in own}
        self._positions = (position for position in count(1) if position not in used)

    def add(self, operator: Transformation) -> None:
        """Add an operator whose inputs have been added already."""
        source = self._sources.get(operator)
        if source is not None:
            self._made[operator] = self._reading(operator, source)
            return
        inputs = tuple(replace(each, source=self._made[each.source]) for each in operator.inputs)
        if isinstance(operator.code, CacheCode):
            self._made[operator] = self._passing(operator, inputs)
            self._keeping.append(self._sink(self._made[operator], operator.code))
        elif operator not in self._own and operator.has_automatic_uid:
            self._made[operator] = replace(operator, inputs=inputs, position=next(self._positions))
        else:
            self._made[operator] = replace(operator, inputs=inputs)

    def checked(self) -> tuple[Transformation, ...]:
        by_uid: dict[str, Transformation] = {}
        for operator in (*self._made.values(), *self._keeping):
            other = by_uid.setdefault(operator.uid, operator)
            if other is not operator:
                raise DuplicateUidError(
                    f"the uid {operator.uid!r} is that of {operator.name!r} ({operator.call_site}) and of"
                    f" {other.name!r} ({other.call_site}), one of which leads to a cached stream: give each operator"
                    " one of its own"
                )
        return tuple(by_uid.values())

    def _uid(self, operator: Transformation) -> str:
        """Return a uid for this job only, because other jobs may read the same rows at the same time."""
        return f"{operator.uid}-{self._job}"

    def _reading(self, operator: Transformation, source: DatasetSource) -> Transformation:
        has_time = source.event_time is not None
        return replace(
            operator,
            kind=OperatorKind.SOURCE,
            code=SourceCode(source=source, watermark_delay_ms=0 if has_time else None),
            watermark_delay_ms=0 if has_time else None,
            inputs=(),
            explicit_uid=self._uid(operator),
            parallelism=_parallelism(operator),
        )

    def _passing(self, operator: Transformation, inputs: tuple[Input, ...]) -> Transformation:
        return replace(operator, inputs=inputs, explicit_uid=self._uid(operator), parallelism=_parallelism(operator))

    def _sink(self, operator: Transformation, code: CacheCode) -> Transformation:
        sink = DatasetSink.of(code.dataset_id, self._folder)
        return Transformation(
            kind=OperatorKind.SINK,
            position=operator.position,
            name=str(sink),
            code=SinkCode(sink=sink),
            inputs=(Input(source=operator, call_site=operator.call_site),),
            publishes_per_checkpoint=True,
            explicit_uid=f"{operator.uid}-sink",
            parallelism=operator.parallelism,
            call_site=operator.call_site,
        )


def _parallelism(operator: Transformation) -> int | None:
    if len(operator.inputs) != 1:
        return None
    source = operator.inputs[0].source
    while source.code.reads_side_output is not None:
        source = source.inputs[0].source
    return (
        _parallelism(source) if isinstance(source.code, CacheCode) else source.parallelism or source.parallelism_limit
    )
