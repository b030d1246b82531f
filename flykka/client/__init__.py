"""A submitted job as its client sees it: its events, requests to it, and what it leaves to continue from.

Not here: the cluster (`cluster`), and how a job looks (`views`, `console`).
"""
