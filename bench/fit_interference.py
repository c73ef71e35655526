"""Where the default world's interference comes from: the fitted model's values for Gavel's measured pairs.

    python bench/fit_interference.py gavel-throughputs.json [--type v100]

The file is simulation/…/throughputs of stanford-futuredata/gavel: steps per second alone and in pairs.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np

from weft.calibration.measurements import Fit, fit_pairs


def measured_pairs(path: Path, kind: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Relative rates of pairs of single-device jobs, each pair once; those at 0 did not run together."""
    jobs = json.loads(path.read_text())[kind]
    pairs = {}
    for job, beside in jobs.items():
        for partner, rates in beside.items():
            if partner == "null" or not (job.endswith(", 1)") and partner.endswith(", 1)")) or 0 in rates:
                continue
            a, b = ast.literal_eval(job)[0], ast.literal_eval(partner)[0]
            if a <= b:
                pairs[a, b] = (rates[0] / beside["null"], rates[1] / jobs[partner]["null"])
    return pairs


def by_model(fit: Fit) -> dict[str, list[tuple[float, float]]]:
    """The batch sizes of a model together."""
    found = defaultdict(list)
    for name, profile in fit.profiles.items():
        found[re.sub(r" \(batch.*", "", name)].append((profile.utilisation, profile.weight))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--type", default="v100", help="a device type of the file (default: v100)")
    asked = parser.parse_args()
    if not asked.file.is_file():
        raise SystemExit(f"{asked.file} is not there")
    pairs = measured_pairs(asked.file, asked.type)
    fit = fit_pairs(pairs)
    rates = np.array(list(pairs.values()))
    print(f"{asked.type}: {len(pairs)} pairs of {len(fit.profiles)} jobs; contention {fit.fitted.contention:.3f}")
    print(f"error of a relative rate: median {fit.median:.3f}, root mean square {fit.root_mean_square:.3f}")
    print(f"  (all rates the same: root mean square {rates.std():.3f})")
    print("\nutilisation, weight of each job")
    for name, profile in sorted(fit.profiles.items(), key=lambda item: item[1].utilisation):
        print(f"  [{profile.utilisation:.2f}, {profile.weight:.2f}]  {name}")
    print("\nmedian over a model's batch sizes")
    for model, loads in sorted(by_model(fit).items()):
        utilisation, weight = np.median(loads, axis=0)
        print(f"  [{utilisation:.2f}, {weight:.2f}]  {model}")


if __name__ == "__main__":
    main()
