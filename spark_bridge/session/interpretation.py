"""Chooses between compiling and interpreting the plan of a stage.

Generating the code of a plan takes Spark longer than interpreting the plan for a few rows, even if the compiled code is
cached. The setting belongs to a session, so plans are interpreted in a clone of the engine's session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from flykka.spark_bridge.session.jvm_classes import frame_of_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

INTERPRETED_ROWS = 10_000
"""The number of rows up to which the plan of a stage is interpreted."""

_SETTINGS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

_interpreting: WeakKeyDictionary[SparkSession, SparkSession] = WeakKeyDictionary()


def in_session(rows: DataFrame, session: SparkSession) -> DataFrame:
    """Return rows whose plans, and those of frames derived from them, are run by a session with the same catalog."""
    if rows.sparkSession is session:
        return rows
    return frame_of_plan(session, rows._jdf.queryExecution().analyzed())


def interpreted(rows: DataFrame) -> DataFrame:
    """Return rows that are processed by interpreted plans."""
    session = rows.sparkSession
    if (interpreting := _interpreting.get(session)) is None:
        # Two threads may create a clone; only one is used later.
        interpreting = _interpreting.setdefault(session, _clone(session))
    return in_session(rows, interpreting)


def _clone(session: SparkSession) -> SparkSession:
    clone = SparkSession(session.sparkContext, session._jsparkSession.cloneSession())
    for key, text in _SETTINGS.items():
        clone.conf.set(key, text)
    return clone
