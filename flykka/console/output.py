"""Standard output, for a run whose jobs matter more than who reads about them."""

from __future__ import annotations

import os
import sys

from rich.console import Console as RichConsole


class Output(RichConsole):
    """A terminal, a file or a pipe. When the reader of a pipe leaves, as `head` does, the jobs go on in silence."""

    def __init__(self) -> None:
        super().__init__(force_jupyter=False)

    def on_broken_pipe(self) -> None:
        """Let what is still printed, by anybody, go nowhere: rich would end the thread that was printing."""
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
