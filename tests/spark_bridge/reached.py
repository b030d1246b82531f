"""Sources of files with both ways of access: through Spark, or with `storage_options` through fsspec."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flykka.spark_bridge.connectors.file.source import FileSource

Reach = Callable[[FileSource], FileSource]
"""A function that returns the source with one way of access."""


def by_spark(source: FileSource) -> FileSource:
    return source


def by_fsspec(source: FileSource) -> FileSource:
    return source.storage_options(auto_mkdir=False)


both_ways = pytest.mark.parametrize("reach", [by_spark, by_fsspec])
