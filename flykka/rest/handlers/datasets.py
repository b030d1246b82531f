"""Cluster datasets: lists and deletes cached streams."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flykka.rest.endpoint import Endpoint, Query
from flykka.rest.errors import RestError
from flykka.rest.operations import AsyncOperations
from flykka.rest.responses.io_metrics import Json

if TYPE_CHECKING:
    from flykka.client.datasets import ClusterDatasets

_DELETION = "datasets"
_ID = re.compile(r"[0-9a-f]{32}")


class DatasetHandlers:
    def __init__(self, datasets: ClusterDatasets | None, operations: AsyncOperations) -> None:
        self._datasets = datasets
        self._operations = operations

    def endpoints(self) -> Iterator[Endpoint]:
        yield Endpoint("/datasets", self._list, "The streams cached for later jobs: cache()")
        yield Endpoint("/datasets/{datasetid}", self._delete, "Delete the rows of a cached stream", "DELETE", 202)
        yield Endpoint("/datasets/delete/{triggerid}", self._deleted, "The result of the deletion")

    def _list(self, query: Query) -> Json:
        listed = () if self._datasets is None else self._datasets.list()
        return {"dataSets": [{"id": each.dataset_id, "isComplete": each.is_complete} for each in listed]}

    def _delete(self, query: Query) -> Json:
        dataset_id = query.path["datasetid"]
        if not _ID.fullmatch(dataset_id):
            raise RestError(400, f"{dataset_id!r} is not an id of a dataset: it has 32 hexadecimal digits")

        def delete() -> Json:
            if self._datasets is not None:
                self._datasets.release(dataset_id)
            return {}

        return {"request-id": self._operations.trigger(_DELETION, None, delete)}

    def _deleted(self, query: Query) -> Json:
        return self._operations.result(_DELETION, query.path["triggerid"])
