"""The read model of a job: its state as its messages report it, for queries of clients and displays.

Not here: decisions, and the format of answers (`flykka/rest/responses`, `flykka/views`).
"""
