"""The recorder of the cluster: what it holds, as a trace, and as the story of a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator

from flykka.rest.endpoint import Download, Endpoint, Query
from flykka.rest.handlers.jobs import job_of
from flykka.rest.recording import Recording
from flykka.rest.responses.io_metrics import Json


class RecorderHandlers:
    """Answer from the recorder; no actor is asked."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def endpoints(self) -> Iterator[Endpoint]:
        """All of them."""
        yield Endpoint("/recorder", lambda query: self._recording.held(), "What the recorder of the cluster holds")
        yield Endpoint("/recorder/trace", self._trace, "All of that as a trace, for flykka trace and flykka replay")
        story = "/jobs/{jobid}/checkpoints/details/{checkpointid:int}/story"
        yield Endpoint(story, self._story, "The story of a checkpoint, as far as the recorder holds it")

    def _trace(self, query: Query) -> Download:
        file = self._recording.trace()
        return Download(file=file, size=os.fstat(file.fileno()).st_size, name="flight-record.trace")

    def _story(self, query: Query) -> Json:
        return self._recording.story(job_of(query), int(query.path["checkpointid"])).to_json()
