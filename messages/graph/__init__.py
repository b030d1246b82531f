"""The job graph, and the settings of a job that are part of it.

Not here: how the job graph is built (`actors/machines/job_graph`).
"""
