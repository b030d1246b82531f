"""Traces as they are read: what concerns a checkpoint, an attempt or a job; drawings; which records are wanted."""
