"""Traces: a recorder that writes every turn of every actor, one that keeps the last ones, and the reader of both."""
