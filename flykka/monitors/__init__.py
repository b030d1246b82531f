"""Monitors: rules of the protocol, checked live, in simulation and over old traces, with constant work per record.

Not here: state machines and actors: a monitor uses only records, so that it cannot share their errors.
"""
