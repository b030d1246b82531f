"""What can be wrong with a graph.

GraphError                the program: what the user's dataflow asks for cannot be built
IllegalTransitionError    the caller: an attempt or a job was asked to move where its table allows no move
"""

from __future__ import annotations


class GraphError(ValueError):
    """The dataflow cannot be built; the text names the uid at fault."""


class IllegalTransitionError(RuntimeError):
    """A move that the table of states does not know."""
