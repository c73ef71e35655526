"""papermill on a notebook that trains in two cells, with another size of its batches."""
# package: papermill, ipykernel
# steps: 24

import tempfile
from pathlib import Path

import nbformat
import papermill
from cells import notebook, printed

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "training.ipynb")
    nbformat.write(notebook(), file)
    done = papermill.execute_notebook(file, Path(folder, "done.ipynb"), {"rows": 48}, progress_bar=False)
    print(printed(done), end="", flush=True)
