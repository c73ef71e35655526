"""Many inference models on one device whose memory holds what lasts of all of them, and the rest of one alone (L4)."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import weft
from figures import Figure
from live import weft_here

MODELS, WIDTH = 42, 256
EVERY_S, WARM_UP = 0.25, 30
SPARE = 4
"""So many T besides ΣP: all memory of who has not been measured yet counts as lasting, so they come in waves."""
WINDOW_S = 6.0
JOB = str(Path(__file__).with_name("inference_job.py"))
POLICY = "salus:lanes=1"


def inference() -> list[Figure]:
    """Alone first: what it needs, and how long an answer takes. Then all of them within ΣP and a few T."""
    [alone], lasting_bytes, step_bytes = _served("cpu=1", 1, None)
    needs_bytes = lasting_bytes + step_bytes
    budget_bytes = MODELS * lasting_bytes + SPARE * step_bytes
    all_bytes = MODELS * needs_bytes
    begun_s = time.monotonic()
    took, _, _ = _served(f"cpu=1:{budget_bytes}", MODELS, needs_bytes)
    lasted_s = time.monotonic() - begun_s
    together = [each for one in took for each in one]
    served = sum(len(one) > 0 for one in took)
    added = statistics.median(together) - statistics.median(alone)
    return [
        Figure(
            f"L4: models served at once by {budget_bytes / 1e6:.1f} MB",
            f"{served}",
            f"{MODELS}",
            served == MODELS,
            f"they need {all_bytes / 1e6:.1f} MB side by side: {MODELS} × (P {lasting_bytes / 1e6:.2f} + "
            f"T {step_bytes / 1e6:.2f} MB)",
        ),
        Figure(
            f"L4: an answer in a lane of {MODELS}, median and p99 of {len(together)}",
            f"{statistics.median(together):.1f} and {_p99(together):.1f} ms",
        ),
        Figure(
            f"    alone, of {len(alone)}",
            f"{statistics.median(alone):.1f} and {_p99(alone):.1f} ms",
        ),
        Figure("    added", f"{added:.1f} and {_p99(together) - _p99(alone):.1f} ms"),
        Figure("    from the first submit to the last answer", f"{lasted_s:.0f} s"),
    ]


def _served(devices: str, count: int, needs_bytes: int | None) -> tuple[list[list[float]], int, int]:
    """How long the answers of each took while all of them were up; P and T of the first."""
    with tempfile.TemporaryDirectory(prefix="weft-inference-") as folder, weft_here(devices, POLICY) as client:
        over = Path(folder) / "over"
        command = [sys.executable, JOB, str(WIDTH), str(EVERY_S), str(WARM_UP), str(over)]
        ids = [client.submit(command, gpu_mem=needs_bytes) for _ in range(count)]
        _wait_for_all(client, ids)
        from_s = time.monotonic()
        time.sleep(WINDOW_S)
        until_s = time.monotonic()
        memory = client.status(ids[0])["memory"]
        lanes = {job["lane"] for job in client.queue()}
        assert len(lanes) == 1, f"they are in several lanes: {lanes}"
        over.touch()
        took = []
        for job_id in ids:
            assert client.wait(job_id)["state"] == "SUCCEEDED", "".join(client.logs(job_id))
            said = json.loads("".join(client.logs(job_id)).splitlines()[-1])
            took.append([ms for at_s, ms in said if from_s <= at_s <= until_s])
    return took, int(memory["persistent_bytes"]), int(memory["ephemeral_bytes"])


def _wait_for_all(client: weft.Client, ids: Sequence[str], within_s: float = 150.0) -> None:
    """Until each has answered some, and is warmed up."""
    begun_s = time.monotonic()
    while True:
        jobs = [job for job in client.queue() if job["id"] in ids]
        waiting = [job["id"] for job in jobs if (job["steps"] or 0) < WARM_UP]
        if len(jobs) == len(ids) and not waiting:
            return
        if time.monotonic() - begun_s > within_s:
            raise TimeoutError(f"not within {within_s:g} s: jobs {', '.join(waiting)} answer")
        time.sleep(0.5)


def _p99(numbers: Sequence[float]) -> float:
    return statistics.quantiles(numbers, n=100)[98] if len(numbers) > 1 else numbers[0]
