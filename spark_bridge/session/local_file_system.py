"""The local file system of the driver's JVM, without child processes.

Hadoop's Java code cannot change permissions. Without its native library, which PySpark does not include, Hadoop starts
a process for each file and folder that it creates: ten processes, 40 ms, for one small parquet file. A subclass of its
file system sets the same permissions with java.nio. It is compiled by Spark's compiler for generated code, and replaces
Hadoop's file system in Hadoop's cache, so that all code in this JVM uses it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark import SparkContext

logger = logging.getLogger("flykka.spark_bridge")

NIO_LOCAL_FILE_SYSTEM = "flykka.NioLocalFileSystem"

_OF_HADOOP = frozenset(
    (
        "org.apache.hadoop.fs.LocalFileSystem",
        # With Hive's libraries, Spark has the first class under another name.
        "org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem",
    )
)

LOCAL_FILE_SYSTEMS = _OF_HADOOP | {"org.apache.hadoop.fs.RawLocalFileSystem", NIO_LOCAL_FILE_SYSTEM}
"""The file system classes that treat local files as the operating system does."""

_IMPLEMENTATION = "fs.file.impl"


def set_permissions_without_processes(context: SparkContext) -> None:
    """Install flykka's local file system in a context's JVM, unless the user has set `spark.hadoop.fs.file.impl`.

    Does nothing without Spark's compiler.
    """
    jvm = context._jvm
    assert jvm is not None
    configuration = context._jsc.hadoopConfiguration()
    file_systems = getattr(jvm, "org.apache.hadoop.fs.FileSystem")
    root = getattr(jvm, "java.net.URI")("file:///")
    if configuration.get(_IMPLEMENTATION) is not None:
        return
    cached = file_systems.get(root, configuration)
    if str(cached.getClass().getName()) not in _OF_HADOOP:
        return
    try:
        compiler = getattr(jvm, "org.codehaus.janino.SimpleCompiler")()
        compiler.cook(Path(__file__).with_name("NioLocalFileSystem.java").read_text(encoding="utf-8"))
        ours = getattr(jvm, "org.apache.hadoop.conf.Configuration")(configuration)
        ours.setClassLoader(compiler.getClassLoader())
        ours.set(_IMPLEMENTATION, NIO_LOCAL_FILE_SYSTEM)
        # Closing removes the file system from the cache. Code that has the instance continues to use it.
        cached.close()
        file_systems.get(root, ours)
    except (Py4JError, TypeError) as failed:
        # TypeError: py4j treats a missing class as a package.
        logger.info("permissions of local files are set by child processes: %s", failed)
