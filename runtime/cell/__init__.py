"""Cells: actors without their instances, which a restart replaces; each part of a cell in a file."""
