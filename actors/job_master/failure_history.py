"""The part of a JobMaster that records the history of failures, sends it to listeners, and has failures labelled."""

from __future__ import annotations

import logging
from functools import partial
from typing import assert_never

from flykka.actors.data_plane import DataPlane
from flykka.actors.failure_enrichers import FailureContext, FailureType
from flykka.actors.job_master.job_listeners import JobListeners
from flykka.actors.machines.graph.events import Effect
from flykka.actors.machines.graph.exception_history import ExceptionHistory, NewFailure
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.monitoring.exception_history import (
    ExceptionHistoryChanged,
    ExceptionHistoryEntry,
    FailureLabel,
    FailureLabelled,
    FailureLabelsTimedOut,
    RootExceptionHistoryEntry,
)
from flykka.runtime.context import ActorContext

_log = logging.getLogger(__name__)

LABELS_TIMEOUT_MS = 10_000
"""Milliseconds for which an ended job waits for the labels of its failures."""

FailureHistoryMessage = FailureLabelled | FailureLabelsTimedOut


class FailureHistory:
    def __init__(
        self,
        context: ActorContext,
        job_graph: JobGraph,
        data_plane: DataPlane,
        listeners: JobListeners,
        *,
        labels_failures: bool,
    ) -> None:
        self._context = context
        self._job_graph = job_graph
        self._data_plane = data_plane
        self._listeners = listeners
        self._labels_failures = labels_failures
        self._history = ExceptionHistory()
        self._unlabelled = 0
        self._has_ended = False

    def on_effect(self, effect: Effect, now: int) -> None:
        for entry in self._history.on_effect(effect, now):
            self._tell(entry)
        for new in self._history.take_new():
            if self._labels_failures:
                self._label(new)

    def checkpoint_completed(self) -> None:
        self._history.checkpoint_completed()

    def end(self) -> bool:
        """Record the end of the job. Returns False if labels are pending: a later message completes the history."""
        self._has_ended = True
        if self._unlabelled:
            self._context.timers.start_once("failure-labels", LABELS_TIMEOUT_MS, FailureLabelsTimedOut())
        return not self._unlabelled

    def on_message(self, message: FailureHistoryMessage) -> bool:
        """Handle labels or their timeout. Returns True if the job has ended and no labels are pending."""
        match message:
            case FailureLabelled(number=number, position=position, labels=labels):
                self._unlabelled -= 1
                labelled = self._history.label(number, position, labels)
                if labelled is not None:
                    self._tell(labelled)
            case FailureLabelsTimedOut():
                _log.warning(
                    "job %r has ended, and its failure enrichers are still running: their labels are lost",
                    self._job_graph.name,
                )
                self._unlabelled = 0
            case _:
                assert_never(message)
        return self._has_ended and not self._unlabelled

    def _label(self, new: NewFailure) -> None:
        self._unlabelled += 1
        number, position = new.number, new.position

        def labelled(labels: tuple[FailureLabel, ...] | None) -> FailureLabelled:
            return FailureLabelled(number=number, position=position, labels=labels or ())

        work = partial(
            self._data_plane.label_failure, self._job_graph.job_id, new.entry.cause, self._failure_context(new.entry)
        )
        self._context.pipe_to_self(work, labelled, lambda _: labelled(None))

    def _failure_context(self, entry: ExceptionHistoryEntry) -> FailureContext:
        if entry.task_name is None:
            failure_type = FailureType.GLOBAL
        elif entry.cause.type_name == "SlotLostError":
            failure_type = FailureType.TASK_MANAGER
        else:
            failure_type = FailureType.TASK
        return FailureContext(
            job_id=self._job_graph.job_id,
            job_name=self._job_graph.name,
            failure_type=failure_type,
            task_name=entry.task_name,
            task_manager=entry.task_manager,
        )

    def _tell(self, entry: RootExceptionHistoryEntry) -> None:
        self._listeners.tell(ExceptionHistoryChanged(job_id=self._job_graph.job_id, entry=entry))
