"""Runs the example notebook from top to bottom, and can store the outputs in it.

`python -m tests.flykka.notebook.flights` writes the outputs into `examples/flights.ipynb`, so that a reader sees them
without running the notebook.
"""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from tests.layout.sources import ROOT

NOTEBOOK = ROOT / "examples" / "flights.ipynb"
CELL_TIMEOUT = 120


def execute_notebook(folder: Path) -> NotebookNode:
    """Return the notebook after a run in a kernel of its own, whose working directory is `folder`.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell has failed.
    """
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    client = NotebookClient(notebook, timeout=CELL_TIMEOUT, resources={"metadata": {"path": str(folder)}})
    return client.execute(env={**os.environ, "PYTHONPATH": path})


def without_noise(notebook: NotebookNode) -> NotebookNode:
    """Return the notebook without the JVM's startup messages and the execution times of the cells."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


if __name__ == "__main__":
    nbformat.write(without_noise(execute_notebook(NOTEBOOK.parent)), NOTEBOOK)
