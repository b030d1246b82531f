"""Cached files where Spark's executors have put them."""

from __future__ import annotations

import os

from pyspark import SparkFiles

from flykka.spark_bridge.errors import JobResourceError
from flykka.spark_bridge.functions.job_resources import CachedFile


def on_executor(file: CachedFile) -> str:
    """Return the path of a cached file in a Python worker. Raises `JobResourceError` where the executor has none."""
    path = SparkFiles.get(file.unit)
    if not os.path.exists(path):
        raise JobResourceError(f"the cached file {file.name!r} of {file.registered} is not on this executor, at {path}")
    return path
