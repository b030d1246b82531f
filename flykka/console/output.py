"""Standard output, for a run whose jobs matter more than who reads about them."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

from rich.console import Console as RichConsole


class Output(RichConsole):
    """A terminal, a file or a pipe. When the reader of a pipe leaves, as `head` does, the jobs go on in silence.

    A character that the encoding does not know, in the name of a job say, is written as its number, and harms nobody.
    """

    def __init__(self) -> None:
        super().__init__(force_jupyter=False)
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")

    def on_broken_pipe(self) -> None:
        """Let what is still printed, by anybody, go nowhere: rich would end the thread that was printing."""
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
