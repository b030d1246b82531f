"""The formats of files that Spark reads, and what we set for each unless the user does.

Text may be malformed, and Spark's own defaults make nulls of what they cannot read, drop what a line has too much and
take the columns of a csv file by their place, whatever its header says. Here a line that does not fit fails the read.
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
    """A format, and how it is read.

    `has_footers`: a file says of itself what is in it, and is asked. `is_columnar`: Spark reads the columns it needs.
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
    # The header and the length of a line are looked at only where all columns are read.
    reading={"mode": "FAILFAST", "enforceSchema": "false", "columnPruning": "false"},
    inferring={"inferSchema": "true"},
)

_MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
_LISTING = {"path", "paths", "basepath", "pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter"}


def checked_options(options: Iterable[tuple[str, OptionValue]]) -> Options:
    """Options as Spark takes them.

    Raises:
        ValueError: a mode that Spark does not know, and would take for PERMISSIVE; or an option that says which files
            are read, which is the matter of the source.
    """
    given = tuple((key, _checked(key, value)) for key, value in options)
    remember_secrets(dict(given))
    return given


def merged(defaults: Mapping[str, str], options: Options) -> dict[str, str]:
    """The user's options over ours. Spark does not look at the case of their names."""
    given = {key.lower() for key, _ in options}
    return {**{key: value for key, value in defaults.items() if key.lower() not in given}, **dict(options)}


def merges_schemas(options: Options) -> bool:
    return {key.lower(): text for key, text in options}.get("mergeschema") == "true"


def _checked(key: str, value: OptionValue) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if key.lower() in _LISTING:
        raise ValueError(f"the option {key!r} does not apply: a FileSource reads all files in and below its path")
    if key.lower() == "mode" and text.upper() not in _MODES:
        raise ValueError(f"the option 'mode' must be one of {', '.join(_MODES)}, not {text!r}")
    return text
