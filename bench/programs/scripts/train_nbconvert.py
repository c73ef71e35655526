"""`jupyter nbconvert --execute` on a notebook that trains in two cells; the kernel is a process of its own."""
# package: nbconvert, ipykernel
# steps: 24

import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
from cells import notebook, printed

with tempfile.TemporaryDirectory() as folder:
    file, out = Path(folder, "training.ipynb"), Path(folder, "done.ipynb")
    nbformat.write(notebook(), file)
    words = ["nbconvert", "--execute", "--to", "notebook", "--output", str(out), str(file)]
    done = subprocess.run([sys.executable, "-m", "jupyter", *words], check=False, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit(done.stderr.decode())
    print(printed(nbformat.read(out, as_version=4)), end="", flush=True)
