"""Training programs from PyPI, bare and under weft: one row of a table for each.

    python bench/programs/run.py [--venv FOLDER] [--kept FOLDER] [--only pauses,daemon] [NAME…]

The packages are in an environment of their own, made as requirements.txt says; the programs need no weft in it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "tests")]

import program as programs  # noqa: E402 -- found on the path above
from checks import Row, check  # noqa: E402

COLUMNS = ("program", "version", "steps", "output", "depths", "limit", "lane", "daemon", "remarks")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=HERE / ".venv", help="the environment with the packages")
    parser.add_argument("--only", default="pauses,daemon", help="which checks")
    parser.add_argument("--kept", type=Path, help="where outputs of bare runs are kept from one time to the next")
    parser.add_argument("names", nargs="*", metavar="NAME")
    said = parser.parse_args()
    found = programs.programs(said.venv.absolute())
    chosen = [one for one in found if not said.names or one.name in said.names or one.name.split()[0] in said.names]
    if not chosen:
        parser.error(f"no such program; there are {', '.join(one.name for one in found)}")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="programs-") as folder:
        programs.scratch_folder = folder
        for one in chosen:
            print(line(check(one, set(said.only.split(",")), said.kept or Path(folder))), flush=True)
    return 0


def line(row: Row) -> str:
    texts = (row.program.name, row.version, row.steps, row.output, row.depths, row.limit, row.lane, row.daemon)
    return f"| {' | '.join((*texts, '; '.join(row.remarks)))} |"


if __name__ == "__main__":
    sys.exit(main())
