"""The three graphs of a program, drawn before its job runs: for terminals, as pages, as Mermaid and as JSON.

Not here: the construction of the graphs (`api/streams`, `actors/machines/job_graph`).
"""
