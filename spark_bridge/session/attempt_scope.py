"""Marks the Spark jobs of one execution attempt, so that they can be cancelled and their blocks found.

Every thread that works for an attempt gets three marks. The job tag is used to cancel jobs. The scheduler pool prevents
a long stage of one subtask from starving the others. The call site, which Spark records in every RDD that the thread
creates, is used to find the blocks of an interrupted materialisation.

`SparkSession.interruptTag` does not interrupt jobs of a classic session; `SparkContext.cancelJobsWithTag` does.
"""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from flykka.spark_bridge.errors import AttemptCancelledError
from flykka.spark_bridge.session.python_daemon import ATTEMPT_PROPERTY, FOLDER_VARIABLE
from flykka.spark_bridge.session.spark_sessions import SessionState, state_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flykka.messages.wire.ids import ExecutionAttemptId


logger = logging.getLogger("flykka.spark_bridge")


class AttemptScope:
    def __init__(self, session: SparkSession, attempt: ExecutionAttemptId, pool: str, label: str) -> None:
        """`label` is the subtask and attempt number in Flink's notation: `(2/4)#0`."""
        self.session = session
        self.attempt = attempt
        self._pool = pool
        self._label = label
        # Spark rejects commas in tags, and the tag is also used as a file name.
        self._tag = f"flykka-{attempt}".replace(",", "_").replace("/", "_")
        # The SparkContext read this value when it started. An actor's turn may not call the JVM.
        folder = session.sparkContext.environment.get(FOLDER_VARIABLE)
        self._note = None if folder is None else Path(folder) / self._tag
        if self._note is not None:
            # A file that an earlier attempt of this name has left would mark this attempt as cancelled.
            self._note.unlink(missing_ok=True)
        self._cancelled = Event()

    def enter(self) -> None:
        """Make the calling thread work for the attempt until the thread ends."""
        context = self.session.sparkContext
        context.addJobTag(self._tag)
        context.setLocalProperty(ATTEMPT_PROPERTY, self._tag)
        context.setLocalProperty("spark.scheduler.pool", self._pool)
        context.setLocalProperty("callSite.short", self._tag)
        # A task that sleeps or waits is interrupted when it is cancelled, as in Structured Streaming.
        context.setLocalProperty("spark.job.interruptOnCancel", "true")

    def set_job_group(self, piece: int, what: str) -> None:
        """Assign the subsequent Spark jobs of the calling thread to the unit of work `piece`.

        Spark's UI shows the description `what`, followed by the subtask and the attempt.
        """
        context = self.session.sparkContext
        context.setLocalProperty("spark.jobGroup.id", self.job_group(piece))
        context.setLocalProperty("spark.job.description", f"{what} {self._label}")

    def job_group(self, piece: int) -> str:
        return f"{self._tag} {piece}"

    def check(self) -> None:
        """Raise `AttemptCancelledError` if the attempt was cancelled. Must be called before starting a Spark job."""
        if self._cancelled.is_set():
            raise AttemptCancelledError(f"{self.attempt} is cancelled")

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    @property
    def is_spark_lost(self) -> bool:
        """True if the session was stopped or its JVM is gone, so that no job runs and nothing has to be freed."""
        return state_of(self.session) is not SessionState.RUNNING

    def refuse(self) -> None:
        """Cancel the attempt: no Spark job is started any more, and Python functions end. Does not block or raise."""
        if self._cancelled.is_set():
            return
        self._cancelled.set()
        try:
            if self._note is not None:
                self._note.touch()
        except OSError as refused:
            logger.warning(
                "%s: its Python workers cannot be stopped, and run until Spark stops them: %s", self.attempt, refused
            )

    def cancel_jobs(self) -> None:
        """Cancel the running Spark jobs.

        A thread may have passed `check` without having started its job, so call this until all threads have returned.
        """
        self.session.sparkContext.cancelJobsWithTag(self._tag)

    def sweep(self, keep: frozenset[int]) -> int:
        """Free the blocks of all RDDs that the attempt has persisted, except `keep`. Return how many were freed."""
        count = 0
        rdds = self.session.sparkContext._jsc.sc().getPersistentRDDs().values().iterator()
        while rdds.hasNext():
            rdd = rdds.next()
            if int(rdd.id()) not in keep and str(rdd.creationSite().shortForm()) == self._tag:
                rdd.unpersist(False)
                count += 1
        return count
