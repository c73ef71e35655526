"""PyTorch's view of this process: its gang, whether it is a DataLoader worker, its GPU work and its caches."""

import ctypes
import os
import sys
from typing import Any, List, Optional


def is_loader_worker() -> bool:
    """A DataLoader's worker may run a model, but its steps are not the job's."""
    loading = sys.modules.get("torch.utils.data")
    return loading is not None and loading.get_worker_info() is not None


def process_group() -> Optional[Any]:
    """torch.distributed, if this process is a rank of a gang."""
    distributed = sys.modules.get("torch.distributed")
    return distributed if distributed and distributed.is_available() and distributed.is_initialized() else None


def rank() -> int:
    group = process_group()
    return int(os.environ.get("RANK", "0")) if group is None else int(group.get_rank())


def common_steps(steps: List[int]) -> List[int]:
    """Those of this rank's checkpoint steps that every rank has. A collective call: all ranks have to make it."""
    group = process_group()
    if group is None:
        return steps
    steps_by_rank: List[Any] = [None] * group.get_world_size()
    group.all_gather_object(steps_by_rank, steps)
    return sorted(set.intersection(*map(set, steps_by_rank)))


def finish_device_work() -> None:
    """Kernels are launched ahead of time: without this a paused job would continue to compute."""
    cuda = sys.modules.get("torch.cuda")
    if cuda and cuda.is_initialized():
        cuda.synchronize()


def drop_caches() -> None:
    """Return cached memory to the device and to the system."""
    cuda = sys.modules.get("torch.cuda")
    if cuda and cuda.is_initialized():
        cuda.empty_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it
    if trim is not None:
        trim(0)
