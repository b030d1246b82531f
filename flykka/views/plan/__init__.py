"""The three graphs of a program, drawn before its job runs: for terminals, as pages, as Mermaid and as JSON.

The graphs are built in `api/streams` and `actors/machines/job_graph`.
"""
