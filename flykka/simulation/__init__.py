"""A whole cluster on one thread in virtual time: the product's actors, a few real rows, faults drawn from a seed.

Not here: Spark; the rules that runs are checked against (`monitors`).
"""
