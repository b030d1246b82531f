"""The connectors that come with flykka are declared, shown, and say what to install where a library is missing."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka import FileSink, KafkaSink, KafkaSource
from flykka.cli.main import main
from flykka.connectors import Connector, connectors
from flykka.connectors.testing import Row, SinkContract
from flykka.spark_bridge.connectors import connector
from flykka.spark_bridge.errors import MissingExtraError, SparkBridgeError


def test_each_is_declared_with_classes_that_there_are() -> None:
    found = connectors()

    assert {"files", "datagen", "console", "foreach-batch", "kafka"} <= {each.name for each in found}
    for each in found:
        for name in filter(None, (each.source, each.sink)):
            module, _, attribute = name.rpartition(".")
            assert hasattr(import_module(module), attribute), name


def test_the_command_shows_them(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "find_spec", lambda module: None)

    assert main(["connectors"]) == 0

    shown = capsys.readouterr().out
    assert "flykka.KafkaSource" in shown
    assert "pip install 'flykka[kafka]'" in shown


def test_what_is_no_connector_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def entries(value: str) -> None:
        monkeypatch.setattr(connector, "entry_points", lambda group: [EntryPoint("mine", value, group)])

    entries("flykka.connectors:Source")
    with pytest.raises(
        SparkBridgeError, match=r"'mine' \(flykka.connectors:Source\) is no flykka.connectors.Connector"
    ):
        connectors()
    entries("nowhere:CONNECTOR")
    with pytest.raises(SparkBridgeError, match=r"'mine' \(nowhere:CONNECTOR\) cannot be loaded: No module"):
        connectors()


def test_a_connector_is_a_value() -> None:
    assert Connector(name="mine").is_installed


@pytest.mark.parametrize("make", [lambda: KafkaSource.of_topics("h:1", "t"), lambda: KafkaSink.to_topic("h:1", "t")])
def test_a_missing_library_is_asked_for(make: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flykka.spark_bridge.connectors.extras.find_spec", lambda module: None)

    with pytest.raises(MissingExtraError, match=r"needs confluent_kafka, .* pip install 'flykka\[kafka\]'"):
        make()  # type: ignore[operator]


@pytest.mark.spark
@pytest.mark.slow
class TestFileSink(SinkContract):
    def sink(self) -> FileSink:
        return FileSink.parquet(self.folder / "out")

    def published(self) -> list[Row]:
        folder: Path = self.folder / "out"
        spark: SparkSession = self.spark
        if not list(folder.glob("*.parquet")):
            return []
        return [tuple(row) for row in spark.read.parquet(str(folder)).collect()]
