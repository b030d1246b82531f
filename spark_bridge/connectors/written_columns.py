"""Checks the columns and options of files when they are declared, since Spark ignores unknown options."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from flykka.spark_bridge.program.prototype import PrototypeError, check_types
from flykka.spark_bridge.rows.file_formats import SPARK_FORMATS, FileFormat
from flykka.spark_bridge.rows.type_support import Use

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.spark_bridge.rows.files import FileLayout

_OF_FORMAT = {"orc": Use.ORC, "avro": Use.AVRO}


def check_written(prototype: DataFrame, layout: FileLayout) -> None:
    """Raise `PrototypeError` if rows like the prototype's cannot be written in this layout.

    The message names a column or an option, and a remedy.
    """
    check_known(prototype.sparkSession, layout.format, (key for key, _ in layout.options))
    folders = [_partition_column(prototype, name) for name in layout.partition_by]
    if repeated := {name for name in folders if folders.count(name) > 1}:
        raise PrototypeError(f"the partition columns of the output contain {min(repeated)!r} twice")
    if len(folders) == len(prototype.columns):
        raise PrototypeError(
            f"the output cannot be partitioned by all columns of the stream, {', '.join(folders)}: its files would"
            " have no columns"
        )
    files = prototype.drop(*folders)
    if layout.format == "csv":
        check_types(files.schema, Use.CSV)
    check_file_types(files, layout.format)
    _ask_spark(files, layout)


def check_file_types(prototype: DataFrame, format: FileFormat) -> None:  # noqa: A002 - the usual name
    if format in _OF_FORMAT:
        check_types(prototype.schema, _OF_FORMAT[format])
    jvm = prototype.sparkSession.sparkContext._jvm
    assert jvm is not None
    file_format = getattr(jvm, SPARK_FORMATS[format].file_format)()
    for field in prototype._jdf.schema().fields():
        if not file_format.supportDataType(field.dataType()):
            kind = field.dataType().simpleString()
            raise PrototypeError(f"{format} files have no type {kind}, which the column {field.name()!r} has")


def _partition_column(prototype: DataFrame, name: str) -> str:
    case_matters = prototype.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    candidates = [
        field
        for field in prototype.schema
        if field.name == name or (not case_matters and field.name.lower() == name.lower())
    ]
    if not candidates:
        columns = ", ".join(prototype.columns)
        raise PrototypeError(f"there is no column {name!r} to partition the output by; the columns are {columns}")
    (column,) = candidates
    check_types(StructType([column]), Use.FOLDER)
    if column.name.startswith("."):
        raise PrototypeError(f"the output cannot be partitioned by {name!r}: Spark does not read folders named .…")
    return column.name


def _ask_spark(files: DataFrame, layout: FileLayout) -> None:
    """Make Spark prepare a write, as it does before the job that writes."""
    session = files.sparkSession
    # Spark would write the column under another name, without an error.
    if layout.format == "orc" and (odd := [each.name for each in files.schema if "`" in each.simpleString()]):
        raise PrototypeError(f"orc files support no names with backticks, such as the column {odd[0]!r}")
    jvm = session.sparkContext._jvm
    assert jvm is not None
    file_format = getattr(jvm, SPARK_FORMATS[layout.format].file_format)()
    job = jvm.org.apache.hadoop.mapreduce.Job.getInstance(session.sparkContext._jsc.hadoopConfiguration())
    options = jvm.PythonUtils.toScalaMap(dict(layout.options))
    try:
        file_format.prepareWrite(session._jsparkSession, job, options, files._jdf.schema())
    except PySparkException as refused:
        raise PrototypeError(refused.getMessage() or str(refused)) from None


_OF_EVERY_FORMAT = ("ignoreCorruptFiles", "ignoreMissingFiles", "maxRecordsPerFile")


def check_known(session: SparkSession, file_format: FileFormat, options: Iterable[str]) -> None:
    """Raise `PrototypeError` if Spark has no such option for files of this format.

    Names with dots pass: they are settings of Hadoop or of the library for the format.
    """
    unknown = [option for option in options if "." not in option]
    if not unknown:
        return
    jvm = session.sparkContext._jvm
    assert jvm is not None
    listed = getattr(jvm, SPARK_FORMATS[file_format].options).getAllOptions()
    names = {
        name.lower(): name for name in (*jvm.scala.jdk.javaapi.CollectionConverters.asJava(listed), *_OF_EVERY_FORMAT)
    }
    for option in unknown:
        if option.lower() not in names:
            near = get_close_matches(option.lower(), names, n=1)
            meant = f" (did you mean {names[near[0]]!r}?)" if near else f"; it has {', '.join(sorted(names.values()))}"
            raise PrototypeError(f"Spark has no option {option!r} for {file_format} files{meant}")
