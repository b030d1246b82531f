"""A whole cluster on one thread in virtual time: the product's actors, a few real rows, faults drawn from a seed.

Not here: Spark; laws that runs must keep (`monitors`).
"""
