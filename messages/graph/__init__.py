"""The job graph, and the settings of a job that travel with it.

Not here: how it is made (`actors/machines/job_graph`).
"""
