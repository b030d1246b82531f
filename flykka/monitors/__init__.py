"""Monitors: laws of the protocol, checked live, in simulation and over old traces, with constant work per record.

Not here: machines and actors: a monitor knows nothing but records, so that it cannot err together with them.
"""
