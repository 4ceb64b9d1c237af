"""The notebook of examples/ runs, draws its three pictures, and counts as is published."""

import pathlib

import nbclient
import nbformat

NOTEBOOK = pathlib.Path(__file__).parents[3] / "examples" / "pictures.ipynb"
# The losing positions of 1 to 17 cells, A112470.
COUNTS = [1, 0, 1, 0, 3, 0, 3, 2, 5, 2, 3, 10, 9, 10, 9, 14, 17]


def test_the_notebook_draws_three_pictures(directory, monkeypatch):
    monkeypatch.setenv("CHOMP_TABLE", str(directory))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are not kept"
    notebook.cells.append(nbformat.v4.new_code_cell("print(counts[1:18].tolist())"))
    nbclient.NotebookClient(notebook, timeout=300).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 3
    assert outputs[-1]["text"] == f"{COUNTS}\n"
