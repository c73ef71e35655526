"""The devices of a machine: cores shared out, GPUs as NVML tells of them, and what a task on them is told."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from weft.core.errors import InputError
from weft.node.devices.cpu import Cpu, cpu_devices
from weft.node.devices.device import DeviceLimits, machine_bytes
from weft.node.devices.discovery import discover
from weft.node.devices.nvml import Cuda, cuda_devices
from weft.node.devices.occupancy import Occupancy


class Nvml:
    """Two GPUs; `on` are the processes on each, and for those in `silent` the driver does not answer."""

    class NVMLError(Exception):
        pass

    def __init__(self, on: dict[int, list[int]], name: str | bytes = "NVIDIA A100-SXM4-40GB") -> None:
        self._on = on
        self._name = name
        self.silent: set[int] = set()
        self.is_silent = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        if self.is_silent:
            raise self.NVMLError("Unknown Error")
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if self.is_silent or index in self.silent:
            raise self.NVMLError("GPU is lost")
        return index

    def nvmlDeviceGetName(self, handle: int) -> str | bytes:  # noqa: N802
        return self._name

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(total=40 << 30)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=1 << 30) for pid in self._on.get(handle, [])]


@pytest.mark.parametrize(
    ("count", "cores", "expected"),
    [
        (None, [0, 1, 2], [(0,), (1,), (2,)]),
        (2, [0, 1, 2, 3], [(0, 1), (2, 3)]),
        (2, [4, 5, 8], [(4,), (5, 8)]),
        (5, [0, 1], [(0,), (1,), (0,), (1,), (0,)]),
    ],
)
def test_cores_are_shared_out_and_shared_where_there_are_too_few(
    count: int | None, cores: list[int], expected: list[tuple[int, ...]]
) -> None:
    devices = cpu_devices(count, cores, memory_bytes=1000)
    assert [device.cores for device in devices] == expected
    assert {device.memory_bytes for device in devices} == {900 // len(expected)}
    assert [device.index for device in devices] == list(range(len(expected)))


def test_without_gpus_there_is_a_device_for_each_core_we_may_use() -> None:
    devices = discover("", None)
    assert [device.cores for device in devices] == [(core,) for core in sorted(os.sched_getaffinity(0))]
    assert sum(device.memory_bytes for device in devices) <= machine_bytes() * 9 // 10


@pytest.mark.parametrize(
    ("groups", "file"),
    [
        ("0::/user/ours\n", "user/ours/memory.max"),
        ("0::/user/ours\n", "user/memory.max"),
        ("3:cpu:/x\n2:memory:/ours\n", "memory/ours/memory.limit_in_bytes"),
    ],
)
def test_the_limit_of_a_control_group_around_us_counts_if_it_is_lower(tmp_path: Path, groups: str, file: str) -> None:
    ours = tmp_path / "cgroup"
    ours.write_text(groups)
    unlimited = tmp_path / "memory.max"
    unlimited.write_text("max\n")
    assert machine_bytes(ours, tmp_path) == machine_bytes(ours, tmp_path / "none")
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("1048576\n")
    assert machine_bytes(ours, tmp_path) == 1 << 20


def test_devices_may_have_less_memory_than_their_share_of_the_machine() -> None:
    plain = discover("cpu=2", None)
    assert discover("cpu=2:64M", None) == [replace(device, memory_bytes=64 << 20) for device in plain]
    for wrong in ("cpu=2:", "cpu=2:much", "cpu=2:0", "cpu=2:1023K", "cpu=2:900T", f"cpu=2:{machine_bytes()}"):
        with pytest.raises(InputError):
            discover(wrong, None)


@pytest.mark.parametrize("text", ["tpu", "cpu=", "cpu=0", "cpu=-1", "cpu=x", "cpu=99999", "cuda=2", "cuda", "cpu:2G"])
def test_a_text_that_chooses_no_devices_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(InputError) as refused:
        discover(text, None)
    assert "cpu=4" in refused.value.hint


def test_gpus_come_first_and_a_strangers_process_blocks_one() -> None:
    nvml: Any = Nvml({1: [os.getpid()]})
    free, blocked = discover("", nvml)
    assert free.to_json() == {
        "index": 0,
        "kind": "cuda",
        "type": "A100",
        "name": "NVIDIA A100-SXM4-40GB",
        "memory_bytes": 40 << 30,
        "cores": (),
        "blocked_by": None,
    }
    assert blocked.blocked_by is not None
    assert blocked.blocked_by.startswith(f"process {os.getpid()} (")
    assert [device.blocked_by for device in cuda_devices(nvml, ours=[os.getpid()])] == [None, None]


def test_a_process_that_cannot_be_seen_blocks_a_gpu_too() -> None:
    assert cuda_devices(Nvml({0: [2**22 + 1]}))[0].blocked_by == "process 4194305, which cannot be seen from here"


def test_a_gpu_for_which_the_driver_does_not_answer_is_blocked_until_it_does() -> None:
    nvml: Any = Nvml({1: [7]})
    kind, devices = Cuda(nvml), cuda_devices(nvml, ours=[7])
    nvml.silent = {1}
    looked_at = kind.looked_at(devices, lambda: [7])
    assert looked_at == [devices[0], replace(devices[1], blocked_by="the driver does not answer for it")]
    assert kind.held_bytes([7], devices) == 0
    assert cuda_devices(nvml)[1].blocked_by == "the driver does not answer for it"
    nvml.is_silent = True
    assert {each.blocked_by for each in kind.looked_at(devices, list)} == {"the driver does not answer for it"}
    nvml.is_silent, nvml.silent = False, set()
    assert kind.looked_at(looked_at, lambda: [7]) == devices


def test_a_driver_that_fails_as_a_whole_is_as_if_there_were_none(caplog: pytest.LogCaptureFixture) -> None:
    nvml: Any = Nvml({})
    nvml.is_silent = True
    assert {device.kind for device in discover("", nvml)} == {"cpu"}
    assert "the driver of the GPUs does not answer: Unknown Error" in caplog.text


@pytest.mark.parametrize(
    ("name", "expected"),
    [("NVIDIA GeForce RTX 3090", "RTX 3090"), (b"Tesla V100-PCIE-16GB", "V100"), ("NVIDIA H100 80GB HBM3", "H100")],
)
def test_the_type_of_a_gpu_is_what_users_call_it(name: str | bytes, expected: str) -> None:
    assert cuda_devices(Nvml({}, name))[0].type == expected


def test_a_task_on_cores_has_a_thread_for_each_unless_it_wanted_fewer() -> None:
    devices = cpu_devices(2, range(8), memory_bytes=1000)
    assert Cpu().environment(devices, {}) == {"OMP_NUM_THREADS": "8", "OMP_WAIT_POLICY": "passive"}
    assert Cpu().environment(devices[:1], {"OMP_NUM_THREADS": "8"})["OMP_NUM_THREADS"] == "4"
    assert Cpu().environment(devices, {"OMP_NUM_THREADS": "2"})["OMP_NUM_THREADS"] == "2"


def test_a_task_on_gpus_sees_only_its_own_and_its_memory_is_theirs() -> None:
    nvml: Any = Nvml({0: [7, 8], 1: [7]})
    devices = cuda_devices(nvml)
    kind = Cuda(nvml)
    assert kind.environment(devices[1:], {})["CUDA_VISIBLE_DEVICES"] == "1"
    assert kind.held_bytes([7], devices) == 2 << 30
    assert kind.limits(1 << 30, 2 << 30) == DeviceLimits(1 << 30, 0)
    assert not kind.can_move


def test_devices_are_held_all_or_none_and_whoever_waits_is_woken() -> None:
    woken: list[bool] = []
    holding = Occupancy(lambda: woken.append(True))

    def unwelcome(key: tuple[str, int], device: int) -> bool:
        return False

    assert holding.take(("1", 1), [0, 1], unwelcome)
    assert holding.take(("1", 1), [0, 1], unwelcome)
    assert not holding.take(("2", 1), [1, 2], unwelcome)
    assert holding.take(("3", 1), [2], unwelcome)
    holding.let_go(("1", 1))
    assert woken == [True]
    assert not holding.take(("2", 1), [1, 2], unwelcome)
    holding.let_go(("3", 1))
    assert holding.take(("2", 1), [1, 2], unwelcome)
    holding.let_go(("4", 1))
    assert woken == [True, True]
