"""The execution mode of a program: set explicitly, or derived from whether its sources are bounded."""

from __future__ import annotations

import pytest

from flykka.api.runtime_mode import RuntimeExecutionMode, job_type
from flykka.api.streams.transformation import Transformation
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import JobType, OperatorKind
from flykka.spark_bridge.connectors.datagen import DataGenSource
from flykka.spark_bridge.connectors.file.source import FileSource
from flykka.spark_bridge.operators.source import SourceCode
from flykka.spark_bridge.program.source import Source

FILES = FileSource.parquet("/data")
WATCHED = FILES.monitor_continuously("1s")
ROWS = DataGenSource({"n": "id"}, number_of_rows=5)  # type: ignore[dict-item]
ENDLESS = DataGenSource({"n": "id"}, number_of_rows=None, rows_per_second=1.0)  # type: ignore[dict-item]


def source_transformation(source: Source) -> Transformation:
    return Transformation(kind=OperatorKind.SOURCE, position=1, name="orders", code=SourceCode(source=source))


@pytest.mark.parametrize(
    ("mode", "sources", "expected"),
    [
        ("STREAMING", [FILES], JobType.STREAMING),
        ("BATCH", [FILES, ROWS], JobType.BATCH),
        ("AUTOMATIC", [FILES, ROWS], JobType.BATCH),
        ("AUTOMATIC", [FILES, WATCHED], JobType.STREAMING),
        ("AUTOMATIC", [ENDLESS], JobType.STREAMING),
    ],
)
def test_the_execution_mode_follows_from_setting_and_sources(
    mode: str, sources: list[Source], expected: JobType
) -> None:
    assert job_type(RuntimeExecutionMode(mode), map(source_transformation, sources)) is expected


@pytest.mark.parametrize("endless", [WATCHED, ENDLESS])
def test_the_error_for_an_unbounded_source_in_batch_mode_names_the_source(endless: Source) -> None:
    with pytest.raises(ProgramError, match=r"the source .*orders.* has no end"):
        job_type(RuntimeExecutionMode.BATCH, [source_transformation(FILES), source_transformation(endless)])
