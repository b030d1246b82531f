"""The recorder of the cluster: what it holds, as a trace, and as the story of a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator

from flykka.rest.costly import Cost, Costly
from flykka.rest.endpoint import FILE, Download, Endpoint, Query
from flykka.rest.errors import RestError
from flykka.rest.gateway import RestfulGateway
from flykka.rest.handlers.jobs import job_of
from flykka.rest.recording import Recording
from flykka.rest.responses.io_metrics import Json


class RecorderHandlers:
    """Answer from the recorder; the cluster says whether there is such a checkpoint."""

    def __init__(self, gateway: RestfulGateway, recording: Recording) -> None:
        self._gateway = gateway
        self._recording = recording

    def endpoints(self) -> Iterator[Endpoint]:
        yield Endpoint("/recorder", lambda query: self._recording.held(), "What the recorder of the cluster holds")
        yield Endpoint(
            "/recorder/trace", self._trace, "All of that as a trace, for flykka trace and replay", gives=FILE
        )
        story = "/jobs/{jobid}/checkpoints/details/{checkpointid:int}/story"
        yield Endpoint(story, self._story, "The story of a checkpoint, as far as the recorder holds it")

    def _trace(self, query: Query) -> Costly:
        return Costly(cost=Cost.PROCESSOR, make=self._download)

    def _download(self) -> Download:
        file = self._recording.trace()
        return Download(file=file, size=os.fstat(file.fileno()).st_size, name="flight-record.trace")

    def _story(self, query: Query) -> Json | Costly:
        job_id, checkpoint_id = job_of(query), int(query.path["checkpointid"])
        try:
            self._gateway.checkpoint(job_id, checkpoint_id)
        except RestError as refused:
            # Of actors that do not answer the recorder can still tell.
            if refused.status != 503:
                raise
        return self._recording.known_story(job_id, checkpoint_id) or Costly(
            cost=Cost.PROCESSOR,
            make=lambda: self._recording.story(job_id, checkpoint_id),
            key=(job_id, checkpoint_id),
        )
