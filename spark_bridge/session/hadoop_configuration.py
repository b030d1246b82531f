"""Removes the sources of Hadoop's settings.

Spark sends all settings, more than a thousand, with each read of files and to each task that writes files. Each setting
includes a list of the files that have set it. Compressing these lists takes more than half of 24 ms, for a few rows.
Hadoop only uses them to show users the origin of a setting.
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
    """Drop the sources of a context's settings, which Spark's sessions and jobs copy."""
    configuration = context._jsc.hadoopConfiguration()
    try:
        # Loaded first, because loading a class with default settings makes Hadoop read all settings again.
        jvm_class(context, "org.apache.hadoop.mapred.JobConf")(configuration)
        configuration.size()
        classes = jvm_class(context, "java.lang.Class")
        sources = classes.forName("org.apache.hadoop.conf.Configuration").getDeclaredField("updatingResource")
        sources.setAccessible(True)
        sources.get(configuration).clear()
    except (Py4JError, TypeError) as failed:
        # TypeError: py4j treats a missing class as a package.
        logger.info("Hadoop's settings retain their sources: %s", failed)
