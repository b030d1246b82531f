"""Diagnosis of a job that does not go on: its actors are asked, and their reports are put into one answer."""
