"""The client's view of a submitted job: its events, requests to it, and the checkpoints that it leaves.

The cluster is in `cluster`, and the display of jobs in `views` and `console`.
"""
