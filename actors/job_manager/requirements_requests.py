"""Requests of clients for the resource requirements of a job, which its JobMaster answers."""

from __future__ import annotations

from flykka.messages.control.rescaling import (
    JobResourceRequirementsRefused,
    JobResourceRequirementsUpdated,
    RequestJobResourceRequirements,
    UpdateJobResourceRequirements,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ref import Ref

RequirementsRequest = UpdateJobResourceRequirements | RequestJobResourceRequirements
RequirementsAnswer = JobResourceRequirementsUpdated | JobResourceRequirementsRefused


class RequirementsRequests:
    """Of one job: each client is answered once, by the JobMaster or because that is gone."""

    def __init__(self) -> None:
        self._asked: list[RequirementsRequest] = []

    def ask(self, request: RequirementsRequest, job_master: Ref) -> None:
        self._asked.append(request)
        job_master.tell(request)

    def answer(self, answer: RequirementsAnswer) -> None:
        """Hand on what the JobMaster says, unless the client was told already that there will be no answer."""
        asked = next((each for each in self._asked if each.client == answer.client), None)
        if asked is not None:
            self._asked.remove(asked)
            answer.client.tell(answer)

    def refuse_all(self, why: str) -> None:
        for asked in self._asked:
            asked.client.tell(refusal(asked, why))
        self._asked.clear()


def refusal(request: RequirementsRequest, why: str) -> JobResourceRequirementsRefused:
    """The answer to a request of which nothing comes."""
    cause = SerializedThrowable(type_name="RescaleError", message=why)
    return JobResourceRequirementsRefused(job_id=request.job_id, client=request.client, cause=cause)
