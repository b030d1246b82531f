"""Diagnoses a job that does not make progress, from reports that its actors send on request.

Diagnoses of recorded runs are in `traces`.
"""
