"""`make bench`: each figure beside its goal and the peers'. TRACES names the folder of public traces."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import agreement
import limits
import live
import long_queue
import philly
import sharing
import stepping
import synthetic
import throughput
from figures import SHOWN, show, write


def main() -> int:
    """All of it, or one part: `python bench/run.py sharing` (the native library), `queue` or `throughput`."""
    if sys.argv[1:]:
        met = [PARTS[part]() for part in sys.argv[1:]]
        return _judged(all(met))
    all_met = show("Under weft against bare, real training on one core", stepping.overhead())
    all_met &= show("Boundary, gate, resume", stepping.latencies())
    all_met &= show("Start", stepping.starts())
    all_met &= _sharing()
    all_met &= show("Live: starting a job", live.starts())
    all_met &= show("Live: submitting", live.submits())
    all_met &= show("Live: a long queue, a long past", [*live.restarts(), *live.memory()])
    all_met &= _queue()
    all_met &= _throughput()
    all_met &= show("Live and simulated: mean completion time", agreement.agreement())
    all_met &= show("Cost of finished jobs", synthetic.growth())
    all_met &= show("AlloX", synthetic.allox())
    trace = Path(os.environ.get("TRACES", "../shared/traces")) / "philly.csv"
    if trace.exists():
        all_met &= show("Philly, 512 devices, ideal world: speed", philly.speed(trace))
        all_met &= show("Philly, first 20,000 jobs, 512 devices, ideal world: results", philly.correctness(trace))
    else:
        print(
            f"\nPhilly: {trace} is not there, so nothing was measured on it; TRACES=FOLDER make bench says where it is."
        )
    return _judged(all_met)


def _sharing() -> bool:
    all_met = show("Lanes: turns", sharing.handovers())
    if not sharing.is_there():
        print("\nNo native library (weft doctor says why): nothing was measured of it.")
        return all_met
    all_met &= show("Under the library against bare", sharing.overhead())
    all_met &= show("Lanes: three PyTorch jobs on one core", sharing.lanes())
    all_met &= show("Under a limit that binds", limits.figures())
    return all_met & show("Limits, swapping, duty", sharing.scaling())


def _queue() -> bool:
    return show(f"Live: {long_queue.QUEUED:,} queued jobs", long_queue.long_queue())


def _throughput() -> bool:
    return show("Live: short jobs, end to end", throughput.throughput())


PARTS = {"sharing": _sharing, "queue": _queue, "throughput": _throughput}


def _judged(all_met: bool) -> int:
    print(f"\nwrote {write('make bench', SHOWN)}; make figures puts it into docs/performance.md and the README")
    print("\nAll goals met." if all_met else "\nSome goals were missed: see above.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
