"""The diagnosis of a job in its parts: the answer, the facts, the attempts that tell something."""

from __future__ import annotations

from flykka.diagnosis.job_diagnosis import JobDiagnosis
from flykka.rest.responses.io_metrics import Json


def diagnosis(found: JobDiagnosis) -> Json:
    """The parts, as `JobDiagnosis` has them. A fact without a label goes on with the one before it."""
    return {
        "answer": found.answer,
        "facts": [list(fact) for fact in found.facts],
        "attempts": [
            {
                "name": each.name,
                "vertex": each.vertex_id,
                "state": each.state,
                "taskManager": each.where,
                "is": each.activity,
                "for": each.lasting,
                "waitsFor": each.waits_for,
            }
            for each in found.attempts
        ],
        "leftOut": found.left_out,
    }
