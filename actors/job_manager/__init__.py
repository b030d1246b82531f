"""The JobManager, which accepts jobs and replies to clients, and its parts.

Not here: the execution of a job (`job_master`).
"""
