"""The cases that speak of what this project does not have, each with the reason.

Everything else has to hold. A case comes here only where nothing of the product could be what it speaks of; a rule of
ours that differs from Flink's is no reason.
"""

from __future__ import annotations

from types import MappingProxyType

LIMIT = 40
"""How many cases may be here."""

_ALIGNMENT_LIMIT = "blocked channels are not read, so an alignment holds nothing that a limit could be set on"
_RETRIES = "Flink has removed the number of execution retries and their delay: a restart strategy says both"

NOT_APPLICABLE = MappingProxyType(
    {
        "02/align-limit-break-checkpoint-at-alignment-limit": _ALIGNMENT_LIMIT,
        "03/job-retries-42-means-fixed": _RETRIES,
    }
)
"""The reason by area and id of the case."""


def not_applicable(area: str, case_id: str) -> str | None:
    """Why the case says nothing about this project; None where it has to hold."""
    return NOT_APPLICABLE.get(f"{area}/{case_id}")
