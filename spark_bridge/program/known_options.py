"""The options of Spark's readers and writers of files: Spark takes no notice of one that it does not know."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.rows.file_formats import SPARK_FORMATS, FileFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_EVERY_FORMAT = ("ignoreCorruptFiles", "ignoreMissingFiles", "maxRecordsPerFile")


def check_known(session: SparkSession, file_format: FileFormat, options: Iterable[str]) -> None:
    """Raise `PrototypeError` where Spark has no such option for files of this format.

    A name with dots is one of Hadoop's settings, or of the library that reads and writes the format, and passes.
    """
    unknown = [option for option in options if "." not in option]
    if not unknown:
        return
    jvm = session.sparkContext._jvm
    assert jvm is not None
    listed = getattr(jvm, SPARK_FORMATS[file_format].options).getAllOptions()
    known = {
        name.lower(): name for name in (*jvm.scala.jdk.javaapi.CollectionConverters.asJava(listed), *_OF_EVERY_FORMAT)
    }
    for option in unknown:
        if option.lower() not in known:
            near = get_close_matches(option.lower(), known, n=1)
            meant = f" (did you mean {known[near[0]]!r}?)" if near else f"; it has {', '.join(sorted(known.values()))}"
            raise PrototypeError(f"Spark has no option {option!r} for {file_format} files{meant}")
