"""The formats of files that Spark reads, and flykka's settings for each, unless the user sets them.

Text may be malformed. Spark's defaults turn unreadable values into nulls, drop surplus values of a line, and assign the
columns of a csv file by position and not by its header. With these settings, a line that does not fit fails the read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from flykka.runtime.secrets import remember_secrets
from flykka.spark_bridge.rows.file_formats import FileFormat

OptionValue = str | int | float | bool
Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFormat:
    """A format, and how Spark reads it.

    `has_footers` is true if files describe their content in a footer, which flykka reads first. `is_columnar` is true
    if Spark reads only needed columns.
    """

    name: FileFormat
    has_footers: bool = False
    is_columnar: bool = False
    reading: Mapping[str, str] = field(default_factory=dict)
    inferring: Mapping[str, str] = field(default_factory=dict)


PARQUET = ReadFormat(name="parquet", has_footers=True, is_columnar=True)
ORC = ReadFormat(name="orc", is_columnar=True)
AVRO = ReadFormat(name="avro")
TEXT = ReadFormat(name="text")
JSON = ReadFormat(name="json", reading={"mode": "FAILFAST"})
CSV = ReadFormat(
    name="csv",
    # The header and the length of a line are only checked if all columns are read.
    reading={"mode": "FAILFAST", "enforceSchema": "false", "columnPruning": "false"},
    inferring={"inferSchema": "true"},
)

_MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
_LISTING = {"path", "paths", "basepath", "pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter"}


def checked_options(options: Iterable[tuple[str, OptionValue]]) -> Options:
    """Check options and convert them for Spark.

    Raises:
        ValueError: the mode is unknown, which Spark would treat as PERMISSIVE; or an option selects the files to read,
            which is the task of the source.
    """
    checked = tuple((key, _checked(key, value)) for key, value in options)
    remember_secrets(dict(checked))
    return checked


def merged(defaults: Mapping[str, str], options: Options) -> dict[str, str]:
    checked = {key.lower() for key, _ in options}
    return {**{key: value for key, value in defaults.items() if key.lower() not in checked}, **dict(options)}


def merges_schemas(options: Options) -> bool:
    return {key.lower(): text for key, text in options}.get("mergeschema") == "true"


def _checked(key: str, value: OptionValue) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if key.lower() in _LISTING:
        raise ValueError(f"the option {key!r} does not apply: a FileSource reads all files in and below its path")
    if key.lower() == "mode" and text.upper() not in _MODES:
        raise ValueError(f"the option 'mode' must be one of {', '.join(_MODES)}, not {text!r}")
    return text
