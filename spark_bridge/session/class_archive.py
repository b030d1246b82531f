"""The archive of the classes that Spark loads, which a JVM maps instead of reading thousands of jar entries.

Java calls this class data sharing (a dynamic AppCDS archive). It halves the start time of a Spark session. An archive
is valid for one version of Java and one set of jars: the JVM compares both itself, and starts without the archive if
they differ.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pyspark
from pyspark.find_spark_home import _find_spark_home

from flykka.spark_bridge.session.cache_folder import cache_folder

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Suppresses the JVM's messages about an unsuitable archive."""


def class_archive() -> Path | None:
    """Return the path of the archive for this Java and Spark; None without Java. The file need not exist."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.path.exists(java):
        return None
    binary = os.path.realpath(java)
    stat = os.stat(binary)
    made_for = (binary, stat.st_mtime_ns, stat.st_size, pyspark.__version__, os.path.realpath(_find_spark_home()))
    return cache_folder() / f"classes-{hashlib.sha256(repr(made_for).encode()).hexdigest()[:16]}.jsa"


def reading_options() -> str:
    archive = class_archive()
    return f"-XX:SharedArchiveFile={archive} {_QUIET}" if archive is not None and archive.exists() else ""


def recording_options(file: Path) -> str:
    return f"-XX:ArchiveClassesAtExit={file} {_QUIET}"
