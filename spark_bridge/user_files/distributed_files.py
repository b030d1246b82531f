"""The files that Spark distributes for the jobs of a SparkContext, and the Python path of its workers.

Registered files are copied at once to a folder of this process, under a name derived from their content: a *unit*. So a
job has the files as they were when registered, a mistake is reported at the user's line, and two jobs share a unit only
if its content is equal. A unit is distributed when the first job needs it, and withdrawn with the last such job.

Spark distributes a unit by `SparkContext.addFile`, or `addArchive` for folders, which each executor fetches once,
before its next task. Alternatives that were rejected: `addPyFile` is `addFile` plus an entry in a list for all jobs of
the context, and rejects another file of the same name. `SparkSession.addArtifacts` is the same in a classic session,
where PySpark turns the isolation of artifacts off. A broadcast variable can be destroyed, but would be in the heap.
Spark has no call to remove a file, so files are removed from the lists of the context. On two cores 200 MB took 0.24 s
to add, and a job without files costs nothing. Folders are sent as uncompressed tar files.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyspark import SparkFiles

from flykka.spark_bridge.session.session import has_one_machine
from flykka.spark_bridge.session.spark_sessions import SessionState, state_of
from flykka.spark_bridge.user_files.staged_files import PREFIX, staged_files

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

logger = logging.getLogger("flykka.spark_bridge")

_PYTHON_PATH = "FLYKKA_PYTHON_PATH"
"""An environment variable of workers: Spark starts separate worker processes for each value.

A reused worker would already have imported the modules of another job.
"""

_lock = Lock()
_holders: dict[tuple[str, str], set[object]] = {}
"""The jobs that need a unit, by Spark application and unit name."""


def distribute(session: SparkSession, unit: str, holder: object) -> None:
    """Distribute a unit to every executor before its next task, until the last holder withdraws the unit. Blocks."""
    context = session.sparkContext
    with _lock:
        holders = _holders.setdefault((context.applicationId, unit), set())
        if not holders:
            archive = staged_files.archive(unit)
            if archive is None:
                context.addFile(str(staged_files.path(unit)))
            else:
                context.addArchive(f"{archive}#{unit}")
        holders.add(holder)


def withdraw(session: SparkSession, units: Iterable[str], holder: object) -> None:
    """Withdraw units that no other holder needs from Spark's lists and from the executors. Blocks.

    An executor without a free core keeps its copies until it ends.
    """
    if state_of(session) is not SessionState.RUNNING:
        return
    context = session.sparkContext
    with _lock:
        unwanted = [unit for unit in units if _is_unwanted(context, unit, holder)]
        if not unwanted:
            return
        try:
            _take_off_lists(context, unwanted)
            _delete(Path(SparkFiles.getRootDirectory()), unwanted)
            if not has_one_machine(session):
                # Enough tasks that every executor with a free core gets a task.
                parts = max(2, context.defaultParallelism)
                context.parallelize(range(parts), parts).foreachPartition(_Deletion(unwanted))
        except Exception as failed:  # noqa: BLE001 - the job has ended, with or without its files
            logger.warning("files of an ended job are left on executors: %s", failed)


def put_on_path(context: SparkContext, units: Iterable[str]) -> None:
    """Make modules in units importable for functions created from now on, like `addPyFile`."""
    _set_path(context, dict.fromkeys((*_path(context), *units)))


def take_off_path(context: SparkContext, units: Iterable[str]) -> None:
    gone = set(units)
    _set_path(context, [unit for unit in _path(context) if unit not in gone])


def _path(context: SparkContext) -> list[str]:
    return [name for name in context._python_includes or () if name.startswith(PREFIX)]


def _set_path(context: SparkContext, units: Iterable[str]) -> None:
    path = list(units)
    others = [name for name in context._python_includes or () if not name.startswith(PREFIX)]
    environment = {name: text for name, text in context.environment.items() if name != _PYTHON_PATH}
    if path:
        environment[_PYTHON_PATH] = blake2b("\0".join(path).encode(), digest_size=8).hexdigest()
    # Replaced, not changed, because threads that run stages read both.
    context._python_includes, context.environment = [*others, *path], environment


def _is_unwanted(context: SparkContext, unit: str, holder: object) -> bool:
    key = context.applicationId, unit
    holders = _holders.get(key, set())
    if holder not in holders:
        return False
    holders.discard(holder)
    if not holders:
        del _holders[key]
    return not holders


def _take_off_lists(context: SparkContext, units: Iterable[str]) -> None:
    removed = set(units)
    scala = context._jsc.sc()
    for by_session in (scala.addedFiles(), scala.addedArchives()):
        for addresses in _each(by_session.values().iterator()):
            for address in list(_each(addresses.keysIterator())):
                if _unit_of(str(address)) in removed:
                    addresses.remove(address)


def _unit_of(address: str) -> str:
    """Return the unit of `spark://.../files/UNIT` and of `file:/.../UNIT.tar#UNIT`."""
    return address.rpartition("#")[2] if "#" in address else address.rpartition("/")[2]


def _each(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


class _Deletion:
    def __init__(self, units: list[str]) -> None:
        self._units = units

    def __call__(self, _: Iterable[int]) -> None:
        _delete(Path(SparkFiles.getRootDirectory()), self._units)


def _delete(root: Path, units: Iterable[str]) -> None:
    for path in (root / unit for unit in units):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
