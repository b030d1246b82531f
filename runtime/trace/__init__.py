"""Traces: the recorder that writes every turn of every actor, and the reader that brings them back."""
