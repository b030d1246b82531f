"""Monitors: protocol rules that are checked live, in simulations and on recorded traces, with constant work per record.

A monitor uses only records, and imports no state machines or actors, so that it cannot share their errors.
"""
