"""What a machine with two GPUs, on which nobody runs, would answer: so that a real coordinator can be told to use them.

Jobs on them compute on the CPU. What is tested is what weft does with a job that cannot change its device.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

NVML_GPU_UTILIZATION_SAMPLES = 1
BUSY_PERCENT = (30, 50)


class NVMLError(Exception):
    pass


class NVMLError_LibraryNotFound(NVMLError):  # noqa: N801, N818 - its real name
    pass


def nvmlInit() -> None:  # noqa: N802
    pass


def nvmlDeviceGetCount() -> int:  # noqa: N802
    return 2


def nvmlDeviceGetHandleByIndex(index: int) -> int:  # noqa: N802
    return index


def nvmlDeviceGetName(handle: int) -> str:  # noqa: N802
    return "NVIDIA A100-SXM4-40GB"


def nvmlDeviceGetMemoryInfo(handle: int) -> Any:  # noqa: N802
    return SimpleNamespace(total=40 << 30)


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[Any]:  # noqa: N802
    return []


def nvmlDeviceGetSamples(handle: int, kind: int, since_us: int) -> tuple[int, list[Any]]:  # noqa: N802
    now_us = int(time.time() * 1e6)
    made = [SimpleNamespace(timeStamp=now_us, sampleValue=SimpleNamespace(uiVal=each)) for each in BUSY_PERCENT]
    return 0, [*made, SimpleNamespace(timeStamp=since_us - 1, sampleValue=SimpleNamespace(uiVal=100))]
