"""Cells: what stays of an actor when its instance is replaced, in parts of one life each."""
