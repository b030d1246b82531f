"""The read model of a job: its state according to its messages, for queries of clients and displays.

Not here: decisions, and the format of responses (`flykka/rest/responses`, `flykka/views`).
"""
