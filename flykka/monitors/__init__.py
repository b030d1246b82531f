"""Monitors: protocol rules that are checked live, in simulations and on recorded traces, with constant work per record.

Not here: state machines and actors. A monitor uses only records, so that it cannot share their errors.
"""
