"""The read model of a job: its state as its messages report it, for clients and displays to ask.

Not here: decisions, and the form of answers (`flykka/rest/responses`, `flykka/views`).
"""
