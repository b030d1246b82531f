"""Operators: one port, and an implementation of it for each kind of operator."""
