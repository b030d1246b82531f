"""Dispatchers: which thread takes an actor's turns."""
