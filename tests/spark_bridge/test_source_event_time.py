"""Tests the event times that a source reports for a batch: the latest, the earliest if order is tracked, or the marked
times.
"""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from flykka.messages.attempt.answers import StageResult
from flykka.spark_bridge.connectors.file.source import FileSource
from flykka.spark_bridge.operators.source import SourceCode
from tests.spark_bridge.harness import Harness, at_ms, transform, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def read_one_batch(harness: Harness, **code: object) -> StageResult:
    """Read one batch of a source whose file has seconds 3, 1 and 2, all of whose rows are filtered out."""
    write_rows(harness.input / "a.parquet", [(0, 0, 3), (1, 0, 1), (2, 0, 2)])
    source = FileSource.parquet(str(harness.input), event_time="at")
    code_of_source = SourceCode(source=source, watermark_delay_ms=0, **code)  # type: ignore[arg-type]
    nothing = transform(lambda rows: rows.where(F.lit(False)))
    attempt = harness.begin(harness.vertex("source", code_of_source, nothing, harness.sink())).open()
    return attempt.read(harness.splits(attempt.engine.descriptor.vertex))


def test_the_earliest_time_is_computed_only_if_order_is_tracked(harness: Harness) -> None:
    finished = read_one_batch(harness)

    assert (finished.event_time_min, finished.event_time_max) == (None, at_ms(3))


def test_the_earliest_time_is_reported_despite_file_statistics(
    harness: Harness,
) -> None:
    finished = read_one_batch(harness, watches_order=True)

    assert (finished.event_time_min, finished.event_time_max) == (at_ms(1), at_ms(3))


@pytest.mark.parametrize(
    ("punctuation", "latest_ms"), [("key > 0", at_ms(2)), ("key = 1", at_ms(1)), ("key = 7", None)]
)
def test_only_marked_watermarks_are_reported_if_rows_mark_them(
    harness: Harness, punctuation: object, latest_ms: int | None
) -> None:
    assert read_one_batch(harness, punctuation=punctuation).event_time_max == latest_ms
