"""The files of one run of a job: distributed when its first attempt opens, and withdrawn when the job ends."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from flykka.spark_bridge.functions.job_resources import NO_RESOURCES, JobResources
from flykka.spark_bridge.user_files.distributed_files import distribute, put_on_path, withdraw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class JobFiles:
    """The units of a job, some of which are on the Python path. Thread-safe."""

    def __init__(
        self, *, resources: JobResources = NO_RESOURCES, units: tuple[str, ...] = (), on_path: tuple[str, ...] = ()
    ) -> None:
        """`resources` are for functions in this process."""
        self.resources = resources
        self._units = units
        self._on_path = on_path
        self._lock = Lock()
        self._session: SparkSession | None = None

    def distribute(self, session: SparkSession) -> None:
        """Distribute the files to the executors of a session, once per session. Blocks."""
        if not self._units:
            return
        with self._lock:
            if self._session is not None and self._session.sparkContext is session.sparkContext:
                return
            for unit in self._units:
                distribute(session, unit, self)
            put_on_path(session.sparkContext, self._on_path)
            self._session = session

    def withdraw(self) -> None:
        with self._lock:
            session, self._session = self._session, None
            if session is not None:
                withdraw(session, self._units, self)
