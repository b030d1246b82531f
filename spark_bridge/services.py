"""What every attempt of one Spark session uses together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flykka.spark_bridge.batches import BatchStore
    from flykka.spark_bridge.code_registry import CodeRegistry
    from flykka.spark_bridge.filesystem import FileSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The session with our settings, the batches in it, the code of the application, files.

    `user_session` is the application's own, for its functions that are given a DataFrame to do with what they like.

    What is cancelled and has not returned after `cancellation_timeout_seconds` is not waited for any longer.
    """

    session: SparkSession
    user_session: SparkSession
    store: BatchStore
    registry: CodeRegistry
    filesystem: FileSystem
    cancellation_timeout_seconds: float
