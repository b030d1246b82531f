"""Values of columns in the names of folders, as Spark and Hive write them: `<column>=<value>/`."""

from __future__ import annotations

from urllib.parse import unquote

_NULL = "__HIVE_DEFAULT_PARTITION__"


def partition_in(path: str) -> dict[str, str | None]:
    """The values in the names of the folders of a path, as texts."""
    folders = (folder.partition("=") for folder in path.split("/")[:-1])
    # Spark takes each encoded byte for a character.
    values = {unquote(column, "latin-1"): unquote(value, "latin-1") for column, equals, value in folders if equals}
    return {column: None if value == _NULL else value for column, value in values.items()}
