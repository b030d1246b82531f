"""Tests that each feature of Delta's protocol is supported, or refused on the line that defines the source or sink.

The rows of the table in docs/delta.md are the cases of this test, so the page and the test list the same features.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from flykka import DeltaSink, DeltaSource, StreamExecutionEnvironment
from flykka.connectors import FileSystem, OperatorId, SinkError, SourceError
from flykka.errors import StreamTypeError
from tests.layout.sources import ROOT
from tests.spark_bridge.connectors.delta.attempts import Attempt, frame
from tests.spark_bridge.connectors.delta.deletion_vectors import deletion_vector

pytestmark = [pytest.mark.spark, pytest.mark.slow]

READ, WRITTEN, REFUSED = "read", "written", "refused"
HEADER = "| feature of the table | `DeltaSource` | `DeltaSink.append` | other sinks |"


@dataclass(frozen=True, kw_only=True)
class Feature:
    """A protocol feature and a table that uses it; `names` are the feature's names in the protocol."""

    title: str
    names: tuple[str, ...]
    reading: str
    appending: str
    replacing: str
    readers_must_know: bool = False
    properties: dict[str, str] = field(default_factory=dict)
    column: dict[str, Any] = field(default_factory=dict)
    deletes: bool = False

    def __str__(self) -> str:
        return self.title

    @property
    def row(self) -> str:
        return f"| {self.title} | {self.reading} | {self.appending} | {self.replacing} |"


def of_readers(title: str, *names: str, reading: str = REFUSED, appending: str = REFUSED, **uses: Any) -> Feature:
    replacing = uses.pop("replacing", appending)
    return Feature(
        title=title,
        names=names,
        reading=reading,
        appending=appending,
        replacing=replacing,
        readers_must_know=True,
        **uses,
    )


def of_writers(title: str, *names: str, appending: str = REFUSED, **uses: Any) -> Feature:
    replacing = uses.pop("replacing", appending)
    return Feature(title=title, names=names, reading=READ, appending=appending, replacing=replacing, **uses)


FEATURES = [
    of_readers("column mapping", "columnMapping", properties={"delta.columnMapping.mode": "name"}),
    of_readers("column mapping that is off", "columnMapping", reading=READ, appending=WRITTEN),
    of_readers("deletion vectors in files", "deletionVectors", appending=WRITTEN, replacing=REFUSED, deletes=True),
    of_readers("deletion vectors, and no file has one", "deletionVectors", reading=READ, appending=WRITTEN),
    of_readers("timestamps without a time zone", "timestampNtz", reading=READ, appending=WRITTEN),
    of_readers("V2 checkpoints", "v2Checkpoint", reading=READ, appending=WRITTEN),
    of_readers("vacuum protocol check", "vacuumProtocolCheck", reading=READ),
    of_readers("type widening", "typeWidening"),
    of_readers("variant", "variantType"),
    of_readers("shredded variant", "variantType", "variantShredding-preview"),
    of_readers("collations", "collations-preview"),
    of_readers("geospatial types", "geospatial"),
    of_readers("catalog-managed tables", "catalogManaged"),
    of_writers(
        "append-only", "appendOnly", appending=WRITTEN, replacing=REFUSED, properties={"delta.appendOnly": "true"}
    ),
    of_writers(
        "change data feed", "changeDataFeed", appending=WRITTEN, properties={"delta.enableChangeDataFeed": "true"}
    ),
    of_writers("check constraints", "checkConstraints", properties={"delta.constraints.positive": "id > 0"}),
    of_writers(
        "column invariants", "invariants", column={"delta.invariants": '{"expression": {"expression": "id > 0"}}'}
    ),
    of_writers("generated columns", "generatedColumns", column={"delta.generationExpression": "1 + 1"}),
    of_writers("identity columns", "identityColumns", column={"delta.identity.start": 1, "delta.identity.step": 1}),
    of_writers("default values", "allowColumnDefaults", column={"CURRENT_DEFAULT": "7"}),
    of_writers("row tracking", "rowTracking", "domainMetadata", properties={"delta.enableRowTracking": "true"}),
    of_writers("clustering", "clustering", "domainMetadata"),
    of_writers("domain metadata", "domainMetadata"),
    of_writers("in-commit timestamps", "inCommitTimestamp"),
    of_writers("checkpoint protection", "checkpointProtection"),
    of_writers("partition columns in files", "materializePartitionColumns"),
    of_writers("Iceberg compatibility", "icebergCompatV1"),
    of_writers("Iceberg compatibility, version 2", "icebergCompatV2"),
]


def make_table(path: Path, feature: Feature) -> None:
    """Write a table with the rows 1 and 2, or only with row 1 if a deletion vector deletes row 2."""
    write_deltalake(str(path), pa.table({"id": pa.array([1, 2], pa.int64())}))
    log = path / "_delta_log" / f"{0:020d}.json"
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    for entry in entries:
        if "protocol" in entry:
            entry["protocol"] = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": feature.names if feature.readers_must_know else (),
                "writerFeatures": feature.names,
            }
        if "metaData" in entry:
            columns = json.loads(entry["metaData"]["schemaString"])
            columns["fields"][0]["metadata"] = feature.column
            if "delta.columnMapping.mode" in feature.properties:
                mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "id"}
                columns["fields"][0]["metadata"] = mapped
            entry["metaData"] |= {"schemaString": json.dumps(columns), "configuration": feature.properties}
        if "add" in entry and feature.deletes:
            entry["add"]["deletionVector"] = deletion_vector(1)
    log.write_text("\n".join(json.dumps(entry) for entry in entries))


def ids_of_table(spark: SparkSession, table: Path) -> list[int]:
    source = DeltaSource.of_path(table).bound(spark, None)
    discovered = source.split_discovery(OperatorId("source"), FileSystem(spark)).discover(b"")
    (rows,) = source.read(spark, source.prototype(spark).schema, discovered.splits, in_slices=False)
    return sorted(row.id for row in rows.collect())


def cases(alike: Callable[[Feature], object]) -> Any:
    """Parametrise with all features; of those with the same key (not None), all but the first are long tests."""
    params, seen = [], set[object]()
    for each in FEATURES:
        params.append(pytest.param(each, id=str(each), marks=pytest.mark.long if alike(each) in seen - {None} else ()))
        seen.add(alike(each))
    return pytest.mark.parametrize("feature", params)


@cases(lambda feature: None if feature.readers_must_know else READ)
def test_a_source_reads_a_feature_or_is_refused_on_its_line(
    spark: SparkSession, tmp_path: Path, feature: Feature
) -> None:
    make_table(tmp_path / "table", feature)
    with StreamExecutionEnvironment.get_execution_environment() as env:
        if feature.reading == REFUSED:
            with pytest.raises(SourceError, match=f"{tmp_path}/table"):
                env.from_source(DeltaSource.of_path(tmp_path / "table"))
            return
        env.from_source(DeltaSource.of_path(tmp_path / "table"))

    assert ids_of_table(spark, tmp_path / "table") == [1, 2]


@pytest.mark.parametrize("feature", FEATURES, ids=str)
def test_a_sink_appends_to_a_feature_or_is_refused_on_its_line(
    spark: SparkSession, tmp_path: Path, feature: Feature
) -> None:
    check_sink(spark, tmp_path, feature, DeltaSink.append(tmp_path / "table"), feature.appending)
    if feature.appending == WRITTEN and feature.reading == READ:
        assert ids_of_table(spark, tmp_path / "table") == [1, 2, 3]


# All sinks check a table in the same way, except for the requirements of replacing rows.
@cases(lambda feature: feature.replacing if feature.replacing == feature.appending else None)
def test_a_sink_replaces_rows_of_a_feature_or_is_refused(spark: SparkSession, tmp_path: Path, feature: Feature) -> None:
    check_sink(spark, tmp_path, feature, DeltaSink.upsert(tmp_path / "table", keys=["id"]), feature.replacing)
    if feature.replacing == WRITTEN:
        assert ids_of_table(spark, tmp_path / "table") == [1, 2, 3]


def check_sink(spark: SparkSession, folder: Path, feature: Feature, sink: DeltaSink, expected: str) -> None:
    """Check that the sink appends row 3, or that sink_to refuses the table."""
    make_table(folder / "table", feature)
    with StreamExecutionEnvironment.get_execution_environment() as env:
        rows = env.from_dataframe(frame(env.spark, "id bigint", (3,)))
        if expected == REFUSED:
            with pytest.raises((StreamTypeError, SinkError), match=f"{folder}/table"):
                rows.sink_to(sink)
            return
        rows.sink_to(sink)
    version = DeltaTable(str(folder / "table")).version()
    Attempt(spark, sink).publish(1, frame(spark, "id bigint", (3,)))
    assert DeltaTable(str(folder / "table")).version() > version


def test_the_docs_page_lists_the_tested_features() -> None:
    lines = (ROOT / "docs" / "delta.md").read_text(encoding="utf-8").splitlines()
    begin = lines.index(HEADER) + 2

    end = lines.index("", begin)
    assert lines[begin:end] == [feature.row for feature in FEATURES]
