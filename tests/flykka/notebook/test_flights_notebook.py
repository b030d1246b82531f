"""The example notebook runs from top to bottom, and its stored outputs are those of a run."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from tests.flykka.notebook.flights import NOTEBOOK, execute_notebook, without_noise


def text_of(notebook: NotebookNode, containing: str) -> str:
    (cell,) = (cell for cell in notebook.cells if cell.cell_type == "code" and containing in cell.source)
    return str(cell.outputs[-1].data["text/plain"])


def check(notebook: NotebookNode) -> None:
    job = text_of(notebook, "execute_async").splitlines()
    found = ast.literal_eval(text_of(notebook, "exceptAll"))
    assert job[0].startswith("job 'flight delays' FINISHED")
    assert job[0].endswith("1 restart")
    assert f"{text_of(notebook, 'kill_task_manager')[1:-1]} is lost" in job[-1]
    assert found == {"rows of the job": 19_486, "not in the batch": 0, "not in the job": 0}


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.long
def test_the_notebook_runs_and_its_job_is_exactly_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    notebook = execute_notebook(tmp_path)

    check(notebook)
    assert not any(tmp_path.glob("flykka-notebook-*"))


def test_the_stored_outputs_of_the_notebook_match_a_run() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)

    check(notebook)
    assert without_noise(nbformat.read(NOTEBOOK, as_version=4)) == notebook
