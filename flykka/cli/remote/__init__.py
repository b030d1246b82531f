"""Commands for jobs of a running flykka, which is asked by its REST interface."""
