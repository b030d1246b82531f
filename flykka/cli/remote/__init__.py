"""Commands for jobs of a running flykka, by its REST interface.

Commands for jobs of this process are elsewhere.
"""
