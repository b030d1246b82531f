"""The recorder of the cluster: its content, a download as a trace, and the story of a checkpoint."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO

from flykka.client.flight_record import flight_record_writer
from flykka.errors import FlightRecordError, TraceSelectionError
from flykka.messages.wire.ids import JobId
from flykka.rest.costly import Cost, Costly
from flykka.rest.endpoint import FILE, Download, Endpoint, Query
from flykka.rest.errors import RestError
from flykka.rest.gateway import RestfulGateway
from flykka.rest.responses.io_metrics import Json
from flykka.runtime.errors import TraceError
from flykka.runtime.recording import Recorder
from flykka.runtime.temporary_folders import TemporaryFolder
from flykka.runtime.trace.record.flight_recorder import FlightRecorder
from flykka.runtime.trace.record.recorder import TraceRecorder

if TYPE_CHECKING:
    from flykka.traces.story import Story


_NOTHING = "this cluster records nothing: flykka was started with flight_recorder_turns=0"


STORY_SECONDS = 5.0
"""Seconds for which a story is reused even if more has been recorded since."""

_STORIES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedStory:
    held: Json
    made_at: float
    story: Json


class Recording:
    """Access to the recorder of a system, which keeps the last records in memory or writes all records to a file."""

    def __init__(self, recorder: Recorder | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._recorder = recorder
        self._clock = clock
        self._lock = Lock()
        self._stories: dict[tuple[JobId, int], _CachedStory] = {}

    def held(self) -> Json:
        """Describe the content: `kind` is `memory`, `file` or `none`. Raises `RestError` after the system has
        terminated.
        """
        match self._recorder:
            case FlightRecorder() as recorder:
                try:
                    content = recorder.held()
                except RuntimeError as ended:
                    raise RestError(503, str(ended)) from None
                return {
                    "kind": "memory",
                    "records": content.records,
                    "limit": content.limit,
                    "notKept": content.not_kept,
                    "begins": content.begins_ms,
                    "ends": content.ends_ms,
                }
            case TraceRecorder(path=path):
                return {"kind": "file", "path": str(path), "bytes": path.stat().st_size if path.exists() else 0}
            case _:
                return {"kind": "none"}

    def trace(self) -> BinaryIO:
        """Open the current content as a trace. Raises `RestError` if nothing is recorded."""
        with self._trace_file() as path:
            return path.open("rb")

    def cached_story(self, job_id: JobId, checkpoint_id: int) -> Json | None:
        """Return the last story of a checkpoint if nothing was recorded since, or if the story is very recent."""
        cached = self._stories.get((job_id, checkpoint_id))
        if cached is None:
            return None
        # The size of a file does not show this, because records may be buffered.
        is_same = cached.held["kind"] == "memory" and self.held() == cached.held
        return cached.story if is_same or self._clock() - cached.made_at < STORY_SECONDS else None

    def story(self, job_id: JobId, checkpoint_id: int) -> Json:
        """Create the story of a checkpoint. Raises `RestError` if it is no longer recorded."""
        content, made_at = self.held(), self._clock()
        story = self._story(job_id, checkpoint_id).to_json()
        with self._lock:
            self._stories[job_id, checkpoint_id] = _CachedStory(held=content, made_at=made_at, story=story)
            while len(self._stories) > _STORIES:
                self._stories.pop(next(iter(self._stories)))
        return story

    def _story(self, job_id: JobId, checkpoint_id: int) -> Story:
        # Imported here because few requests need the module.
        from flykka.runtime.trace.file.reader import TraceReader
        from flykka.traces.checkpoint_story import checkpoint_story

        with self._trace_file() as path:
            try:
                return checkpoint_story(TraceReader.open(path), checkpoint_id, job_id)
            except TraceSelectionError as missing:
                reason = str(missing).removeprefix(f"{path}: ")
                raise RestError(404, f"the story is not recorded: {reason}") from None

    @contextmanager
    def _trace_file(self) -> Iterator[Path]:
        """Write the trace to a file. The file of a flight record is deleted after the block."""
        with TemporaryFolder("recording") as folder:
            write = flight_record_writer(self._recorder, f"{folder}/flight-record.trace")
            if write is None:
                raise RestError(404, _NOTHING)
            try:
                yield Path(write())
            except (FlightRecordError, TraceError, OSError) as failure:
                raise RestError(503, f"the recording cannot be read: {failure}") from None


class RecorderHandlers:
    """Handles requests with data of the recorder. The cluster checks that the checkpoint exists."""

    def __init__(self, gateway: RestfulGateway, recording: Recording) -> None:
        self._gateway = gateway
        self._recording = recording

    def endpoints(self) -> Iterator[Endpoint]:
        yield Endpoint("/recorder", lambda query: self._recording.held(), "The content of the cluster's recorder")
        yield Endpoint(
            "/recorder/trace", self._trace, "The content as a trace, for flykka trace and replay", gives=FILE
        )
        story = "/jobs/{jobid}/checkpoints/details/{checkpointid:int}/story"
        yield Endpoint(story, self._story, "The story of a checkpoint, as far as it is recorded")

    def _trace(self, query: Query) -> Costly:
        return Costly(cost=Cost.PROCESSOR, make=self._download)

    def _download(self) -> Download:
        file = self._recording.trace()
        return Download(file=file, size=os.fstat(file.fileno()).st_size, name="flight-record.trace")

    def _story(self, query: Query) -> Json | Costly:
        job_id, checkpoint_id = query.job_id, int(query.path["checkpointid"])
        try:
            self._gateway.checkpoint(job_id, checkpoint_id)
        except RestError as refused:
            # The recorder works even if no actor replies.
            if refused.status != 503:
                raise
        return self._recording.cached_story(job_id, checkpoint_id) or Costly(
            cost=Cost.PROCESSOR,
            make=lambda: self._recording.story(job_id, checkpoint_id),
            key=(job_id, checkpoint_id),
        )
