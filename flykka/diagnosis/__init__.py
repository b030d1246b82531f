"""Diagnoses a job that does not make progress, from reports that its actors send on request.

Not here: diagnosis of recorded runs (`traces`).
"""
