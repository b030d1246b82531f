"""Commands for jobs of a running flykka, which use its REST interface.

Not here: commands for jobs of this process.
"""
