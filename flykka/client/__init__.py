"""The client's view of a submitted job: its events, requests to it, and the checkpoints that it leaves.

Not here: the cluster (`cluster`), and the display of jobs (`views`, `console`).
"""
