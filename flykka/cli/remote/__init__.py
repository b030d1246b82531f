"""Commands for jobs of a running flykka, which use its REST interface."""
