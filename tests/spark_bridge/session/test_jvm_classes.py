"""Tests that JVM classes are looked up once, and that PySpark records the call site of users' calls only."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka.spark_bridge.rows.materialise import counted
from flykka.spark_bridge.session.jvm_classes import is_instance, jvm_class, scala_sequence

pytestmark = pytest.mark.spark

LOOKUP, CALL = "r", "c"


@pytest.fixture
def calls(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the commands to the JVM from now on, by kind and target."""
    sent = Counter[str]()
    gateway: Any = spark.sparkContext._gateway
    client_class = type(gateway._gateway_client)
    send = client_class.send_command

    def counting(client: object, command: str, *options: bool) -> str:
        kind, *rest = command.split("\n")
        sent[kind] += 1
        sent[f"{kind} {rest[1]}"] += 1
        return str(send(client, command, *options))

    monkeypatch.setattr(client_class, "send_command", counting)
    return sent


def test_a_class_and_its_functions_are_looked_up_once(spark: SparkSession, calls: Counter[str]) -> None:
    context = spark.sparkContext
    scala_sequence(context, ["a"])
    calls.clear()

    items = scala_sequence(context, ["a", "b"])

    assert calls[LOOKUP] == 0
    assert items.length() == 2
    assert is_instance(items, "scala.collection.Seq")
    assert not is_instance(items, "java.lang.String")


def test_a_name_without_a_class_is_looked_up_again(spark: SparkSession, calls: Counter[str]) -> None:
    for _ in range(2):
        jvm_class(spark.sparkContext, "NotImportedYet")

    assert calls[LOOKUP] == 2


def test_only_the_users_line_is_recorded_as_call_site(spark: SparkSession, calls: Counter[str]) -> None:
    def origin(column: Any) -> str:
        return str(column._jc.node().origin().pysparkErrorContext())

    rows = spark.range(3)
    calls.clear()
    counted(rows, {})

    assert calls[f"{CALL} set"] == 0
    assert __file__ in origin(F.col("id") + 1)
