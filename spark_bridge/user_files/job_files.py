"""The files of one run of a job: distributed when its first attempt opens, withdrawn when it is over."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from flykka.spark_bridge.functions.job_resources import NO_RESOURCES, JobResources
from flykka.spark_bridge.user_files.distributed_files import distribute, put_on_path, withdraw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class JobFiles:
    """The units of a job, of which some are on the Python path. Safe to use from any thread."""

    def __init__(
        self, *, resources: JobResources = NO_RESOURCES, units: tuple[str, ...] = (), on_path: tuple[str, ...] = ()
    ) -> None:
        """`resources` are as functions in this process have them."""
        self.resources = resources
        self._units = units
        self._on_path = on_path
        self._lock = Lock()
        self._session: SparkSession | None = None

    def distribute(self, session: SparkSession) -> None:
        """Let the executors of a session have the files, once; again where another session was begun. Blocks."""
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
        """Take the files back; nothing happens where they are already. Blocks."""
        with self._lock:
            session, self._session = self._session, None
            if session is not None:
                withdraw(session, self._units, self)
