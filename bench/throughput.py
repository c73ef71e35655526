"""Jobs that do nothing, from their submission to the end of the last: how many a second, here and under peers.

Peers are measured where their commands are installed and, of Slurm, a controller answers; nothing here installs them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import weft
from figures import Figure
from live import weft_here

JOBS = 2_000
SLOTS = 2
GOAL_HZ = 20.0
PATIENCE_S = 600.0
LOOK_EVERY_S = 0.1


def throughput() -> list[Figure]:
    with weft_here(f"cpu={SLOTS}", policy="weft") as client:
        rate_hz, cpu_s = _under_weft(client)
    goal = f"≥ {GOAL_HZ:g}/s"
    peers = f"CPU time a job: daemon {1e3 * cpu_s[0]:.1f} ms, coordinator with its shepherds {1e3 * cpu_s[1]:.1f} ms"
    return [
        Figure(
            f"{JOBS:,} jobs of true on {SLOTS} devices",
            f"{rate_hz:.1f}/s",
            goal,
            rate_hz >= GOAL_HZ,
            peers,
            "throughput",
        ),
        _peer("task-spooler", "tsp", _under_task_spooler),
        _peer("Slurm", "sbatch", _under_slurm),
    ]


def _under_weft(client: weft.Client) -> tuple[float, tuple[float, float]]:
    """Jobs a second, and the CPU time that each took."""
    pids = [client.health()["pid"], int(client.home.node_lock.read_text())]
    before_s = [_cpu_s(pid) for pid in pids]
    begun_s = time.monotonic()
    ids = client.submit(["true"], array=f"1-{JOBS}")
    while client.health()["jobs"].get("SUCCEEDED", 0) < JOBS:
        assert time.monotonic() < begun_s + PATIENCE_S, client.health()
        time.sleep(LOOK_EVERY_S)
    took_s = time.monotonic() - begun_s
    assert client.status(ids[-1])["state"] == "SUCCEEDED"
    daemon_s, node_s = (_cpu_s(pid) - before for pid, before in zip(pids, before_s, strict=True))
    return JOBS / took_s, (daemon_s / JOBS, node_s / JOBS)


def _cpu_s(pid: int) -> float:
    """Of a process and of the children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


# ---- peers


def _peer(name: str, command: str, measure: object) -> Figure:
    path = shutil.which(command)
    if path is None:
        return Figure(f"{name}, the same", "not installed")
    rate_hz: float | None = measure(path)  # type: ignore[operator]
    return Figure(f"{name}, the same", "does not answer" if rate_hz is None else f"{rate_hz:.1f}/s")


def _under_task_spooler(tsp: str) -> float:
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        env = {**os.environ, "TS_SOCKET": f"{folder}/socket", "TMPDIR": folder, "TS_SLOTS": str(SLOTS)}
        env["TS_MAXFINISHED"] = str(JOBS)
        try:
            begun_s = time.monotonic()
            for _ in range(JOBS):
                done = subprocess.run([tsp, "-n", "true"], env=env, check=True, capture_output=True, text=True)
            subprocess.run([tsp, "-w", done.stdout.strip()], env=env, check=True, capture_output=True)
            return JOBS / (time.monotonic() - begun_s)
        finally:
            subprocess.run([tsp, "-K"], env=env, check=False, capture_output=True)


def _under_slurm(sbatch: str) -> float | None:
    """As many jobs as there are, in arrays of at most 1,000, the default limit."""
    scontrol, squeue = (sbatch.replace("sbatch", name) for name in ("scontrol", "squeue"))
    if subprocess.run([scontrol, "ping"], check=False, capture_output=True).returncode:
        return None
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        begun_s = time.monotonic()
        for _ in range(JOBS // 1_000):
            asked = [sbatch, "--array=0-999", "--job-name=weft-bench", "--output=/dev/null", "--wrap=true"]
            subprocess.run(asked, cwd=folder, check=True, capture_output=True)
        while subprocess.run([squeue, "-h", "-n", "weft-bench"], check=True, capture_output=True).stdout.strip():
            if time.monotonic() > begun_s + PATIENCE_S:
                return None
            time.sleep(LOOK_EVERY_S)
        return JOBS / (time.monotonic() - begun_s)
