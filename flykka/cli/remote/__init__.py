"""Commands for jobs of a running flykka, which is asked by its REST interface.

Not here: commands for the jobs of this process.
"""
