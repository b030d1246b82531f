"""Why a checkpoint does not fit a job.

RestoreError
├── RescaleNotSupportedError     the job: an operator runs at another parallelism than its state allows
└── StateWithoutOperatorError    the job: an operator that has state in the checkpoint is gone
"""

from __future__ import annotations


class RestoreError(ValueError):
    """A job cannot start from a checkpoint; the text names the operator."""


class RescaleNotSupportedError(RestoreError):
    """State cannot be handed to another number of subtasks, or to other key groups."""


class StateWithoutOperatorError(RestoreError):
    """State would be lost, and nobody said that it may be."""
