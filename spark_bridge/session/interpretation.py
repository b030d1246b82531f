"""Chooses between compiling and interpreting the plan of a stage.

Generating the code of a plan takes Spark longer than interpreting the plan for a few rows, even if the compiled code is
cached. The setting belongs to a session, so plans are interpreted in a clone of the engine's session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

from flykka.spark_bridge.session.jvm_classes import frame_of_plan
from flykka.spark_bridge.session.session import cloned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INTERPRETED_ROWS = 10_000
"""The number of rows up to which the plan of a stage is interpreted."""

_SETTINGS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

_interpreting: WeakKeyDictionary[SparkSession, SparkSession] = WeakKeyDictionary()
_clones: WeakSet[SparkSession] = WeakSet()


def are_few(rows: DataFrame) -> bool:
    """Return True if the rows belong to a stage with few rows, whose plans are interpreted."""
    return rows.sparkSession in _clones


def interpreted(rows: DataFrame) -> DataFrame:
    """Return rows that are processed by interpreted plans, as are all frames derived from them."""
    session = rows.sparkSession
    if session in _clones:
        return rows
    if (interpreting := _interpreting.get(session)) is None:
        # Two threads may create a clone, but both use the first.
        interpreting = _interpreting.setdefault(session, cloned(session, _SETTINGS))
        _clones.add(interpreting)
    return frame_of_plan(interpreting, rows._jdf.queryExecution().analyzed())
