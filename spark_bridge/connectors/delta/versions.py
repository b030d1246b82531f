"""The versions of a table: opened for a source, and found by the time at which they were committed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from flykka.spark_bridge.connectors.delta.table import has_deletion_vectors
from flykka.spark_bridge.errors import SourceError, SourceNotFoundError

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from flykka.spark_bridge.connectors.delta.source_settings import DeltaSourceSettings
    from flykka.spark_bridge.connectors.delta.table import TableFacts, TableLocation

NO_DELETION_VECTORS = (
    ", which a DeltaSource does not read: have the files rewritten without them, with REORG TABLE ... APPLY (PURGE)"
)


def opened(location: TableLocation, version: int | None = None) -> DeltaTable:
    """The table, now or at a version. Raises `SourceError` where delta-rs does not open it."""
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        return location.open(version)
    except TableNotFoundError:
        raise SourceNotFoundError(f"there is no Delta table at {location.path}") from None
    except DeltaError as refused:
        at = "" if version is None else f" as of version {version}"
        raise SourceError(f"the Delta table {location.path} cannot be opened{at}: {refused}") from refused


def check_readable(location: TableLocation, facts: TableFacts) -> None:
    """Raise `SourceError` where the table has a feature by which its files are not its rows."""
    feature = facts.unreadable()
    if feature is not None:
        raise SourceError(f"{location.path} is a Delta table with {feature}, which a DeltaSource does not read")


def check_whole_files(location: TableLocation, table: DeltaTable) -> None:
    """Raise `SourceError` where some rows of the version are deleted beside their files."""
    if has_deletion_vectors(table):
        raise SourceError(f"{location.path} has deletion vectors{NO_DELETION_VECTORS}")


def first_version(source: DeltaSourceSettings, location: TableLocation) -> int | None:
    """The version whose changes are read first; None where the table is read as a whole before."""
    if source.starting_ms is None:
        return source.starting
    times = _commit_times(location)
    later = [version for version, committed_ms in times.items() if committed_ms >= source.starting_ms]
    return min(later, default=max(times) + 1)


def last_version(source: DeltaSourceSettings, location: TableLocation) -> int:
    """The version that the table is read at as a whole, and the last of a bounded source."""
    if source.as_of is not None:
        return source.as_of
    if source.as_of_ms is None:
        return opened(location).version()
    times = _commit_times(location)
    before = [version for version, committed_ms in times.items() if committed_ms <= source.as_of_ms]
    if not before:
        first = datetime.fromtimestamp(min(times.values()) / 1000, UTC)
        raise SourceError(f"the log of {location.path} begins at {first}: it cannot be read as of a time before that")
    return max(before)


def _commit_times(location: TableLocation) -> dict[int, int]:
    """The times (ms) of the versions that are in the log."""
    commits = opened(location).history()
    times = {commit["version"]: commit["timestamp"] for commit in commits if "timestamp" in commit}
    if not times:
        raise SourceError(f"the log of {location.path} does not tell when its versions were committed: name a version")
    return times
