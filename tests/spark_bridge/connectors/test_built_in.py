"""Tests that built-in connectors are registered and described, and that errors name the package to install if it is
missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import EntryPoint
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyspark.sql import DataFrame

from flykka import FileSink, FileSource, ForeachBatchSink, KafkaSink, KafkaSource
from flykka.cli.main import main
from flykka.connectors import Connector, connectors
from flykka.connectors.testing import Row, SourceContract
from flykka.spark_bridge.connectors import connector
from flykka.spark_bridge.errors import MissingExtraError, SparkBridgeError
from tests.spark_bridge.connectors.contracts import ShorterSinkContract


def test_each_connector_is_declared_with_existing_classes() -> None:
    declared = connectors()

    assert {"files", "datagen", "console", "foreach-batch", "kafka"} <= {each.name for each in declared}
    for each in declared:
        for name in filter(None, (each.source, each.sink)):
            module, _, attribute = name.rpartition(".")
            assert hasattr(import_module(module), attribute), name


def test_the_command_lists_the_built_in_connectors(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector, "find_spec", lambda module: None)

    assert main(["connectors"]) == 0

    output = capsys.readouterr().out
    assert "flykka.KafkaSource" in output
    assert "pip install 'flykka[kafka]'" in output


def test_an_object_that_is_not_a_connector_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def entries(value: str) -> None:
        monkeypatch.setattr(connector, "entry_points", lambda group: [EntryPoint("mine", value, group)])

    entries("flykka.connectors:Source")
    with pytest.raises(
        SparkBridgeError, match=r"'mine' \(flykka.connectors:Source\) is not a flykka.connectors.Connector"
    ):
        connectors()
    entries("nowhere:CONNECTOR")
    with pytest.raises(SparkBridgeError, match=r"'mine' \(nowhere:CONNECTOR\) cannot be loaded: No module"):
        connectors()


def test_a_connector_is_a_value() -> None:
    assert Connector(name="mine").is_installed


@pytest.mark.parametrize("make", [lambda: KafkaSource.of_topics("h:1", "t"), lambda: KafkaSink.to_topic("h:1", "t")])
def test_an_error_names_the_missing_library(make: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flykka.spark_bridge.connectors.connector.find_spec", lambda module: None)

    with pytest.raises(MissingExtraError, match=r"needs confluent_kafka, .* pip install 'flykka\[kafka\]'"):
        make()  # type: ignore[operator]


def rows_in(folder: Path) -> list[Row]:
    files = [path for path in folder.glob("*.parquet") if not path.name.startswith((".", "_"))]
    return [tuple(row.values()) for path in files for row in pq.read_table(path).to_pylist()]


# test_writer.py, test_foreach_batch.py and test_staging_owners.py cover these moments of both sinks in each run.
@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
class TestFileSink(ShorterSinkContract):
    def sink(self) -> FileSink:
        return FileSink.parquet(self.folder / "out")

    def published(self) -> list[Row]:
        return rows_in(self.folder / "out")


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
class TestForeachBatchSink(ShorterSinkContract):
    """The contract for a function whose writes replace earlier rows with the same id, so that the results are
    exactly-once.
    """

    def sink(self) -> ForeachBatchSink:
        folder = self.folder / "out"

        def write(rows: DataFrame, checkpoint_id: int) -> None:
            rows.write.mode("overwrite").parquet(f"{folder}/checkpoint={checkpoint_id}")

        return ForeachBatchSink(write)

    def published(self) -> list[Row]:
        return [row for folder in sorted((self.folder / "out").glob("checkpoint=*")) for row in rows_in(folder)]


@pytest.mark.spark
@pytest.mark.slow
class TestFileSource(SourceContract):
    @pytest.fixture(autouse=True)
    def _number(self) -> None:
        self._numbers = count()

    def source(self) -> FileSource:
        return FileSource.parquet(self.folder / "in", schema="id long, name string").monitor_continuously(
            "100ms", watch=False
        )

    def add(self, rows: Sequence[Row]) -> None:
        (self.folder / "in").mkdir(exist_ok=True)
        keys, names = zip(*rows, strict=True)
        name = f"{next(self._numbers):05}.parquet"
        pq.write_table(pa.table({"id": keys, "name": names}), self.folder / name)
        (self.folder / name).rename(self.folder / "in" / name)

    def rows(self) -> list[Row]:
        return [(number, f"row {number}") for number in (next(self._numbers) for _ in range(3))]
