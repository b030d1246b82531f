"""FOR NOTEBOOKS: what a job looks like in one, and what changes where a cell can be run again.

Nothing here is loaded before a job is shown or submitted in IPython, and IPython is never imported: who runs in it has
loaded it.
"""
