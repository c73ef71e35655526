"""The runtime inside any interpreter: what the script has of its own stays, and what cannot be used is said."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from underweft import SCRIPTS, bare, environment, marked_steps, page_folder, under_weft
from weft.node.devices.preload import INJECT
from weft.runtime.page import layout
from weft.runtime.page.page_file import create

PYTHONS = ["python2.7", *(f"python3.{minor}" for minor in range(6, 15))]
SHOWS = """
import os, sys, sitecustomize
others = [each for each in os.environ['LD_PRELOAD'].split(':') if not each.endswith('libweft.so')]
print(sys.path, ':'.join(others), sitecustomize.__file__)
"""


@pytest.fixture
def page() -> Iterator[Path]:
    with page_folder() as folder:
        create(str(folder / "a.page")).close()
        yield folder / "a.page"


def injected(page: Path, *words: str, python: str = sys.executable, **more: str) -> subprocess.CompletedProcess[str]:
    """An interpreter started as `weft exec` would start it."""
    env = {**environment(), "WEFT_PAGE": str(page), "PYTHONPATH": INJECT, **more}
    return subprocess.run([python, *words], capture_output=True, text=True, env=env, check=False)


def test_a_sitecustomize_of_the_jobs_own_is_loaded_and_its_paths_are_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.chained = 7\n")
    env = {**environment(), "PYTHONPATH": str(tmp_path), "LD_PRELOAD": ""}
    code = f"print(chained)\n{SHOWS}"
    with under_weft(sys.executable, "-c", code, env=env) as running:
        out, err, status = running.end()
    alone = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert (out, err, status) == (alone.stdout, alone.stderr, 0)
    assert out.startswith("7\n")


def test_results_are_the_same_beside_another_sitecustomize_that_imports_torch(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import torch\n")
    script = SCRIPTS / "two_phase.py"
    env = {**environment(), "PYTHONPATH": str(tmp_path)}
    with under_weft(sys.executable, str(script), env=env) as running:
        assert running.end()[::2] == (bare(script), 0)
        assert running.task.step == marked_steps(script)


def test_a_sitecustomize_that_fails_fails_as_it_did(tmp_path: Path, page: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import nothing_of_that_name\n")
    env = {**environment(), "PYTHONPATH": str(tmp_path)}
    alone = subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, text=True, env=env, check=False)
    under = injected(page, "-c", "print(1)", PYTHONPATH=f"{INJECT}:{tmp_path}")
    assert (under.stdout, under.stderr, under.returncode) == (alone.stdout, alone.stderr, alone.returncode)
    assert "nothing_of_that_name" in under.stderr


def test_a_script_runs_though_a_file_of_the_runtime_is_damaged(tmp_path: Path, page: Path) -> None:
    runtime = shutil.copytree(Path(INJECT).parent, tmp_path / "runtime")
    (runtime / "hooks" / "install.py").write_text("import nothing_of_that_name\n")
    under = injected(page, "-c", "import torch; print(1)", PYTHONPATH=str(runtime / "inject"))
    assert (under.stdout, under.returncode) == ("1\n", 0)
    assert under.stderr.startswith("weft: step boundaries are unavailable: ModuleNotFoundError")


def test_nothing_is_imported_that_the_script_does_not_import(page: Path) -> None:
    code = "import sys; print(*sorted(sys.modules))"
    alone = set(bare_modules(code))
    under = set(injected(page, "-c", code).stdout.split())
    added = {name for name in under - alone if not name.startswith(("weft_runtime", "importlib", "_frozen"))}
    assert added <= {"sitecustomize", "__future__", "atexit", "warnings"}


def bare_modules(code: str) -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment()
    ).stdout.split()


def test_looking_for_torch_is_not_importing_it(page: Path) -> None:
    """Libraries ask whether torch is there long before somebody imports it."""
    code = (
        "import importlib.util, sys\n"
        "spec = importlib.util.find_spec('torch')\n"
        "print('torch' in sys.modules)\n"
        "import torch\n"
        "print('weft_runtime.hooks.install' in sys.modules, 'exec_module' in vars(torch.__spec__.loader))\n"
    )
    assert injected(page, "-c", code).stdout == "False\nTrue False\n"


@pytest.mark.parametrize("options", [("-S",), ("-E",), ("-I",)])
def test_an_interpreter_that_takes_nothing_from_outside_runs_bare(options: tuple[str, ...], page: Path) -> None:
    done = injected(page, *options, "-c", "import sys; print('weft_runtime' in sys.modules)")
    assert (done.stdout, done.returncode) == ("False\n", 0)


@pytest.mark.parametrize("name", PYTHONS)
def test_any_interpreter_runs_under_weft(name: str, page: Path) -> None:
    python = shutil.which(name)
    if python is None or subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"no {name} here")
    code = "import sys; print(sys.version_info >= (3, 8), 'weft_runtime' in sys.modules, 'inject' in str(sys.path))"
    done = injected(page, "-c", code, python=python)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"\(?(True|False), \1, False\)?|(True|False) \2 False", done.stdout.strip())
    if "True" in done.stdout:
        use = "import weft\nfor i in range(3):\n  with weft.step(): pass\nprint(len(list(weft.steps([1, 2]))))"
        done = injected(page, "-c", use, python=python)
        assert (done.stdout, done.stderr) == ("2\n", "")


def test_a_job_whose_environment_has_no_weft_is_watched_and_may_import_it(tmp_path: Path) -> None:
    """Only torch is lent to the new environment: the packages of an editable weft are not found by a path alone."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    lent = tmp_path / "lent"
    lent.mkdir()
    for found in Path(torch.__file__).parents[1].iterdir():
        if not found.name.startswith(("weft", "_weft", "__editable__", "_editable")) and found.suffix != ".pth":
            (lent / found.name).symlink_to(found)
    env = {**environment(), "PYTHONPATH": str(lent)}
    alone = subprocess.run([python, "-c", "import weft"], capture_output=True, text=True, env=env, check=False)
    assert "No module named 'weft'" in alone.stderr
    (tmp_path / "weft").mkdir()  # a checkout in the current folder, say, would be taken for a package
    env["PYTHONPATH"] += f":{tmp_path}"
    script = SCRIPTS / "resumable.py"
    with under_weft(python, str(script), env=env) as running:
        out, err, code = running.end()
        assert (code, out) == (0, bare(script)), err
        status = running.task.status()
    assert (status.step, status.ranks[0].source) == (marked_steps(script), "script")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.write_bytes(b"not a page" * 500), "is not a control page"),
        (lambda path: path.unlink(), "No such file"),
        (lambda path: os.truncate(path, 100), "damaged control page"),
        (lambda path: other_version(path), "version 9; this weft knows 2"),
    ],
    ids=["foreign", "gone", "short", "version"],
)
def test_a_page_that_cannot_be_used_is_said_and_the_script_runs_as_if_bare(damage, said: str, page: Path) -> None:
    damage(page)
    before = page.read_bytes() if page.exists() else None
    done = injected(page, "-c", "import weft\nfor i in range(3):\n  with weft.step(): print(i)")
    assert (done.returncode, done.stdout) == (0, "0\n1\n2\n")
    assert re.fullmatch(rf"weft: .*{said}.*; continuing without step boundaries\n", done.stderr)
    assert (page.read_bytes() if page.exists() else None) == before


def other_version(path: Path) -> None:
    path.unlink()
    page = create(str(path))
    page.words[layout.VERSION] = 9
    page.close()


def test_a_torch_that_cannot_be_watched_is_said_and_the_script_runs(tmp_path: Path, page: Path) -> None:
    (tmp_path / "torch.py").write_text("__version__ = '0.1'\n")
    done = injected(page, "-c", "import torch; print(torch.__version__)", PYTHONPATH=f"{INJECT}:{tmp_path}")
    assert (done.returncode, done.stdout) == (0, "0.1\n")
    assert done.stderr.startswith("weft: torch 0.1 cannot be watched for steps")
