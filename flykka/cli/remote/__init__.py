"""Commands for jobs of a running flykka, by its REST interface.

Not here: commands for jobs of this process.
"""
