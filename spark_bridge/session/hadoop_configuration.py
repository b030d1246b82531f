"""Hadoop's settings without their sources.

Spark sends all settings, more than a thousand, with each read of files and to each task that writes some. With each
setting goes the list of the files that have set it, compressed by itself: more than half of 24 ms, for a few rows.
Hadoop names these files to people that ask where a setting comes from, and uses them for nothing else.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from flykka.spark_bridge.session.jvm_classes import jvm_class

if TYPE_CHECKING:
    from pyspark import SparkContext

logger = logging.getLogger("flykka.spark_bridge")


def forget_sources(context: SparkContext) -> None:
    """Drop the sources of the settings of a context, of which Spark's sessions and jobs make copies."""
    configuration = context._jsc.hadoopConfiguration()
    try:
        # A class that brings settings with it has all of them read again, when it is loaded.
        jvm_class(context, "org.apache.hadoop.mapred.JobConf")(configuration)
        configuration.size()
        classes = jvm_class(context, "java.lang.Class")
        sources = classes.forName("org.apache.hadoop.conf.Configuration").getDeclaredField("updatingResource")
        sources.setAccessible(True)
        sources.get(configuration).clear()
    except (Py4JError, TypeError) as failed:
        # TypeError: py4j takes a class that is not there for a package.
        logger.info("Hadoop's settings retain their sources: %s", failed)
