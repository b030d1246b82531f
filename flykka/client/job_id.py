"""Ids of jobs: they tell one execution of a program from another."""

from __future__ import annotations

from uuid import uuid4

from flykka.messages.wire.ids import JobId


def new_job_id() -> JobId:
    """The id of a job that is about to be made: the same program has another one each time."""
    return JobId(uuid4().hex)
