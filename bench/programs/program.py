"""A training program from elsewhere: its script, and how its users start it. Lines `# name: text` of the script say so.

# package: fastai             whose version is shown; several with commas
# steps: 24                   what weft should count; 0: no step can be seen; any: no number is expected
# runs: ppo 24, sac 30        instead: one program for each word, with its steps
# command: {bin}/torchrun …   instead of {bin}/python {script}; further such lines add words
# env: NAME=text              {scratch} is a folder that is empty at each start
# needs: torchvision          a folder of the environment that is put on the path
# ranks: 2                    processes that step together; a gang cannot be in a lane
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
FINGERPRINT = HERE.parent.parent / "tests" / "scripts"
HEADER = re.compile(r"^# (package|steps|runs|command|env|needs|ranks|venv): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    name: str
    script: Path
    header: dict[str, str]
    words: tuple[str, ...]
    steps: int | None
    """None: no number is expected."""
    venvs: Path

    @property
    def venv(self) -> Path:
        """TensorFlow has an environment of its own, beside the others'."""
        return (
            self.venvs.with_name(self.venvs.name + "-" + self.header["venv"]) if "venv" in self.header else self.venvs
        )

    @property
    def command(self) -> list[str]:
        template = self.header.get("command", "{bin}/python {script}").split()
        places = {"bin": self.venv / "bin", "script": self.script}
        return [*(word.format(**places) for word in template), *self.words]

    @property
    def is_gang(self) -> bool:
        return "ranks" in self.header

    def environment(self) -> dict[str, str]:
        """What bare runs and those under weft get alike. A folder for scratch is left to be removed with the rest."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("WEFT_", "PYTHON"))}
        path = [str(FINGERPRINT), *([str(self.venv / self.header["needs"])] if "needs" in self.header else [])]
        own = dict(pair.split("=", 1) for pair in self.header.get("env", "").split())
        scratch = tempfile.mkdtemp(prefix="programs-", dir=scratch_folder) if own else ""
        return {
            **kept,
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": os.pathsep.join(path),
            "PATH": f"{self.venv / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HF_HUB_OFFLINE": "1",
            **{name: text.format(scratch=scratch) for name, text in own.items()},
        }

    def versions(self) -> str:
        packages = [name.strip() for name in self.header["package"].split(",")]
        ask = f"from importlib.metadata import version as v; print(', '.join(n + ' ' + v(n) for n in {packages}))"
        return subprocess.run(
            [self.venv / "bin" / "python", "-c", ask], capture_output=True, text=True, check=True
        ).stdout.strip()


scratch_folder = tempfile.gettempdir()


def programs(venvs: Path) -> list[Program]:
    """All there are, in the order of their names."""
    found = []
    for script in sorted(SCRIPTS.glob("train_*.py")):
        header: dict[str, str] = {}
        for key, text in HEADER.findall(script.read_text()):
            header[key] = f"{header[key]} {text}" if key in header else text
        name = script.stem.removeprefix("train_")
        runs = [run.split() for run in header["runs"].split(",")] if "runs" in header else [["", header["steps"]]]
        for word, steps in runs:
            number = None if steps == "any" else int(steps)
            named = f"{name} {word}".strip()
            found.append(Program(named, script, header, (word,) if word else (), number, venvs))
    return found
