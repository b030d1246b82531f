"""Monitors: what must hold in every run, written once, checked live, in simulation and over old traces.

A monitor looks at the records of a trace, one after the other, and says where one of them breaks a law of the protocol.
It knows nothing but what the actors have told each other, so that it cannot err together with the machines it watches.
Work per record is constant, and what a monitor remembers is bounded by what lives.
"""
