"""Names of PySpark and Flink that flykka spells differently or lacks. The error states the replacement."""

from __future__ import annotations

import copy
import re
import subprocess
import sys

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import flykka
from flykka import (
    AllWindowedStream,
    ConsoleSink,
    DataStream,
    KeyedStream,
    StreamExecutionEnvironment,
    WindowedStream,
)
from flykka.api.migration_hints import MigrationHints, hint_for, hints
from flykka.api.streams.joins import (
    CoGrouped,
    EqualTo,
    IntervalJoin,
    IntervalJoined,
    JoinedStreams,
    RegularJoined,
    Where,
    WindowJoined,
)
from flykka.api.streams.operator_settings import DataStreamSink
from tests.flykka.programs import HOURS, bids
from tests.layout.pyflink_methods import NAMES

OWNERS: list[type[MigrationHints]] = [
    DataStream,
    KeyedStream,
    WindowedStream,
    AllWindowedStream,
    DataStreamSink,
    StreamExecutionEnvironment,
]

JOINS: list[type[MigrationHints]] = [
    IntervalJoin,
    IntervalJoined,
    RegularJoined,
    JoinedStreams,
    Where,
    EqualTo,
    WindowJoined,
    CoGrouped,
]

OF_JAVA: dict[type[MigrationHints], str] = {
    DataStream: "join coGroup keyBy flatMap sinkTo setParallelism global_ getSideOutput",
    KeyedStream: "sink_to",
    WindowedStream: "evictor sum min max allowedLateness sideOutputLateData",
    AllWindowedStream: "evictor sum min max allowedLateness sideOutputLateData",
    DataStreamSink: "setParallelism",
    StreamExecutionEnvironment: """get_state_backend set_state_backend set_restart_strategy read_text_file fromSource
        enableCheckpointing fromElements socketTextStream generateSequence get_stream_graph getCheckpointConfig
        setStateBackend""",
}
"""Names of Flink's Java API that PyFlink's classes do not have, or no longer have."""


@pytest.mark.parametrize("stream", [DataStream, KeyedStream, WindowedStream, AllWindowedStream])
def test_every_name_of_a_data_frame_exists_or_has_a_hint(stream: type[MigrationHints]) -> None:
    names = [name for name in dir(DataFrame) if not name.startswith("_")]

    assert [name for name in names if not hasattr(stream, name) and hint_for(stream, name) is None] == []


@pytest.mark.parametrize("owner", OWNERS)
def test_every_name_of_flink_exists_or_has_a_hint(owner: type[MigrationHints]) -> None:
    names = [*NAMES[owner.__name__].split(), *OF_JAVA[owner].split()]

    assert [name for name in names if not hasattr(owner, name) and hint_for(owner, name) is None] == []


def test_every_name_of_a_structured_streaming_query_has_a_hint() -> None:
    of_writers = ["foreachBatch", "writeStream", "foreach"]
    of_sessions = ["readStream", "awaitTermination", "streams"]

    assert [name for name in of_writers if hint_for(DataStream, name) is None] == []
    assert [name for name in of_sessions if hint_for(StreamExecutionEnvironment, name) is None] == []
    assert "StreamingQuery" in hints("imports")


@pytest.mark.parametrize("owner", [*OWNERS, *JOINS])
def test_no_hint_is_for_an_existing_name(owner: type[MigrationHints]) -> None:
    (first, *_) = owner._hint_tables

    assert [name for name in hints(first) if hasattr(owner, name)] == []
    assert not set(hints("imports")) & set(flykka.__all__)


def test_hints_refer_only_to_existing_names() -> None:
    offered = {
        name
        for owner in [*OWNERS, *JOINS, *(getattr(flykka, name) for name in flykka.__all__), DataFrame, F, SparkSession]
        for name in dir(owner)
    }
    of_owners = {hint for owner in [*OWNERS, *JOINS] for table in owner._hint_tables for hint in hints(table).values()}

    names = {name for hint in of_owners | set(hints("imports").values()) for name in re.findall(r"(\w+)\(", hint)}

    assert names - offered - set(flykka.__all__) - {"addPyFile", "sequence"} == set()


@pytest.mark.parametrize(
    ("owner", "name", "hint"),
    [
        (DataStream, "groupBy", r"key_by\(\.\.\.\)\.window\(.*\)\.aggregate\(.*\) groups by key and window"),
        (DataStream, "sum", r"aggregates need keys: key_by\(\.\.\.\)\.aggregate"),
        (KeyedStream, "applyInPandasWithState", r"process\(function, output\) calls a KeyedProcessFunction"),
        (DataStream, "window", r"windows need keys: key_by\(\.\.\.\)\.window"),
        (DataStream, "keyBy", "it is spelled key_by"),
        (KeyedStream, "drop_duplicates", r"call it before key_by\(\.\.\.\)"),
        (DataStream, "max_by", r"it needs keys: key_by\(\.\.\.\)"),
        (KeyedStream, "uid", r"key_by\(\.\.\.\) is not an operator"),
        (WindowedStream, "sum", r"aggregate\(F\.sum\('amount'\)"),
        (KeyedStream, "countWindowAll", r"call it before key_by\(\.\.\.\)"),
        (AllWindowedStream, "max", r"aggregate\(F\.sum\('amount'\)"),
        (WindowedStream, "groupBy", r"call it after aggregate\(\.\.\.\)"),
        (DataStreamSink, "execute", r"env\.execute\(name\)"),
        (StreamExecutionEnvironment, "addSource", r"from_source\("),
        (StreamExecutionEnvironment, "getCheckpointConfig", "methods of the environment"),
    ],
)
def test_the_error_names_the_replacement(owner: type[MigrationHints], name: str, hint: str) -> None:
    instance = owner.__new__(owner)

    with pytest.raises(AttributeError, match=f"^'{owner.__name__}' object has no attribute '{name}': .*{hint}"):
        getattr(instance, name)

    assert not hasattr(instance, name)
    assert name not in dir(instance)


@pytest.mark.parametrize("name", ["__deepcopy__", "_repr_latex_", "_ipython_canary_method_should_not_exist_", "whre"])
def test_other_unknown_names_raise_pythons_own_error(name: str) -> None:
    stream = DataStream.__new__(DataStream)

    with pytest.raises(AttributeError, match=f"^'DataStream' object has no attribute '{name}'$") as raised:
        getattr(stream, name)

    assert (raised.value.name, raised.value.obj) == (name, stream)
    assert type(copy.copy(stream)) is DataStream


def test_errors_of_a_property_are_preserved() -> None:
    half_made = DataStream.__new__(DataStream)

    with pytest.raises(AttributeError, match="no attribute 'flow'"):
        half_made.columns  # noqa: B018


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("FlinkKafkaConsumer", r"KafkaSource\.of_topics\(servers, topic\)"),
        ("SessionWindows", r"EventTimeSessionWindows\.with_gap\('30min'\)"),
        ("StatefulProcessor", r"key_by\(\.\.\.\)\.process\(function, output\) calls a KeyedProcessFunction"),
        ("ValueState", "it need not be imported"),
        ("SavepointError", "errors are in flykka.errors: from flykka.errors import SavepointError"),
    ],
)
def test_an_import_error_names_the_replacement(name: str, hint: str) -> None:
    with pytest.raises(ImportError, match=f"^cannot import name '{name}' from 'flykka': {hint}"):
        exec(f"from flykka import {name}")
    with pytest.raises(AttributeError, match=f"^module 'flykka' has no attribute '{name}': {hint}"):
        getattr(flykka, name)

    assert not hasattr(flykka, name)
    assert name not in dir(flykka)


@pytest.mark.slow
def test_a_submodule_is_importable_regardless_of_earlier_imports() -> None:
    program = "from flykka import errors, datagen, console; print(errors.__name__)"

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (ran.stdout, ran.stderr) == ("flykka.errors\n", "")


def test_unknown_imports_raise_the_error_of_python() -> None:
    with pytest.raises(ImportError, match="cannot import name 'NoSuchThing' from 'flykka'"):
        exec("from flykka import NoSuchThing")


@pytest.mark.spark
def test_camel_case_aliases_exist_if_a_data_frame_has_them(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = bids(spark).selectExpr("auction", "price / 100 AS euros", "at").withColumn("n", F.lit(1))

    renamed = stream.withColumns({"m": F.lit(2)}).withColumnRenamed("n", "one")
    renamed.printSchema()

    assert renamed.columns == ["auction", "euros", "at", "one", "m"]
    assert capsys.readouterr().out.startswith("root\n |-- auction: long (nullable = true)\n |-- euros: double")


@pytest.mark.spark
def test_type_checkers_refuse_calls_that_fail_at_run_time(spark: SparkSession) -> None:
    # mypy checks this file too. It would report each `type: ignore` that is not needed.
    stream = bids(spark)

    with pytest.raises(AttributeError, match="groupBy"):
        stream.groupBy("auction")  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="sum"):
        stream.key_by("auction").window(HOURS).sum("price")  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="set_description"):
        stream.sink_to(ConsoleSink()).set_description("rows")  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="PulsarSource"):
        flykka.PulsarSource()  # type: ignore[attr-defined]
