"""Diagnosis of a job that does not continue: its actors are asked, and their reports become one answer.

Not here: diagnosis of recorded runs (`traces`).
"""
