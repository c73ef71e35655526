"""What a task is told of the native library, and what bounds its memory with it and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weft.client.job_request import cleaned
from weft.node.attempt.records import AttemptRecord
from weft.node.devices import preload
from weft.node.devices.cpu import TABLES_BYTES, Cpu, cpu_devices
from weft.node.devices.device import DeviceLimits
from weft.node.devices.nvml import Cuda
from weft.node.devices.preload import NOT_SERVED, Service, preloaded, service_at
from weft.node.handles.spawn import limits_of, page_for, task_environment
from weft.runtime import allocator
from weft.runtime.page import layout
from weft.system import files
from weft.system.home import Home

LIBRARY = "/lib/weft/libweft.so"
SERVED = Service(LIBRARY, "/home/ada/.weft/tier")
GB = 1 << 30


def record(env: dict[str, str] | None = None, **launch: Any) -> AttemptRecord:
    return AttemptRecord("7", 1, 1, (0,), "this boot", 0, {"env": env or {}, "tasks": 1, **launch})


def told(service: Service, env: dict[str, str] | None = None, **launch: Any) -> dict[str, str]:
    devices = cpu_devices(1, range(2), memory_bytes=1000)
    return task_environment(
        Home(Path("/home")), record(env, **launch), 0, Cpu(service), devices, Path("/run/7.1.0.page")
    )


def test_the_library_is_loaded_first_and_told_where_to_overflow_to() -> None:
    env = told(SERVED, {"LD_PRELOAD": "/lib/theirs.so /lib/more.so"})
    assert env["LD_PRELOAD"] == f"{LIBRARY}:/lib/theirs.so:/lib/more.so"
    assert env["WEFT_TIER"] == SERVED.tier
    assert "WEFT_STRICT" not in env
    assert told(SERVED, strict=True)["WEFT_STRICT"] == "1"


def test_without_the_library_nothing_is_said_of_it() -> None:
    env = told(NOT_SERVED, {"LD_PRELOAD": "/lib/theirs.so", "WEFT_STRICT": "1", "WEFT_LANE": "/run/a.lane"})
    assert env["LD_PRELOAD"] == "/lib/theirs.so"
    assert not {"WEFT_TIER", "WEFT_STRICT", "WEFT_LANE"} & env.keys()


def test_what_a_task_around_us_was_told_is_not_for_this_one() -> None:
    around = {"WEFT_LANE": "/run/a.lane", "WEFT_LANES": "/elsewhere", "WEFT_LANE_CAPACITY": "1"}
    around |= {"WEFT_STRICT": "1", "WEFT_TIER": "/elsewhere"}
    env = told(SERVED, {**around, "LD_PRELOAD": "/older/libweft.so"})
    assert not {"WEFT_LANE", "WEFT_STRICT"} & env.keys()
    assert (env["WEFT_TIER"], env["LD_PRELOAD"]) == (SERVED.tier, LIBRARY)
    assert (env["WEFT_LANES"], env["WEFT_LANE_CAPACITY"]) != (around["WEFT_LANES"], around["WEFT_LANE_CAPACITY"])
    assert cleaned({**around, "LD_PRELOAD": "/older/libweft.so", "HOME": "/home"}) == {"HOME": "/home"}
    assert cleaned({"LD_PRELOAD": "/lib/a.so:/older/libweft.so"}) == {"LD_PRELOAD": "/lib/a.so"}


@pytest.mark.parametrize("before", ["", ":", LIBRARY, f"/other{LIBRARY}:"])
def test_it_is_loaded_once(before: str) -> None:
    assert preloaded(LIBRARY, before) == LIBRARY


@pytest.mark.parametrize(
    ("asked", "served", "bare", "cuda"),
    [
        ((0, 0), DeviceLimits(0, 0), DeviceLimits(0, 0), DeviceLimits(0, 0)),
        ((2, 0), DeviceLimits(2, 0), DeviceLimits(2, 2), DeviceLimits(2, 0)),
        ((0, 3), DeviceLimits(0, 3 + TABLES_BYTES), DeviceLimits(3, 3), DeviceLimits(0, 0)),
        ((2, 3), DeviceLimits(2, 5 + TABLES_BYTES), DeviceLimits(5, 5), DeviceLimits(2, 0)),
    ],
)
def test_the_allocator_bounds_device_memory_and_the_kernel_what_is_to_be_bounded_besides(
    asked: tuple[int, int], served: DeviceLimits, bare: DeviceLimits, cuda: DeviceLimits
) -> None:
    assert Cpu(SERVED).limits(*asked) == served
    assert Cpu().limits(*asked) == bare
    assert Cuda(None).limits(*asked) == cuda


def test_the_page_has_the_limit_of_the_device_memory_alone(tmp_path: Path) -> None:
    both = record(limit_bytes=5 * GB, memory_bytes=2 * GB)
    for kind, limit_bytes in ((Cpu(SERVED), 2 * GB), (Cpu(), 5 * GB)):
        page = page_for(tmp_path / f"{limit_bytes}.page", both, kind)
        assert page.words[layout.LIMIT] == limit_bytes
        page.close()


def test_what_was_recorded_before_there_was_a_library_is_understood() -> None:
    assert limits_of(record(limit_bytes=5, memory_bytes=None), Cpu()) == DeviceLimits(5, 5)
    assert limits_of(record(limit_bytes=2, memory_bytes=2), Cpu(SERVED)) == DeviceLimits(2, 0)
    assert limits_of(record(limit_bytes=5, memory_bytes=2), Cpu(SERVED)) == DeviceLimits(2, 5 + TABLES_BYTES)
    assert limits_of(record(), Cpu(SERVED)) == DeviceLimits(0, 0)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator, "library_path", lambda: LIBRARY)
    monkeypatch.setattr(allocator, "why_not_usable", lambda path: "")


@pytest.mark.usefixtures("there")
def test_the_next_tier_is_a_folder_of_the_home_for_its_owner_alone(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert service_at(home) == Service(LIBRARY, str(tmp_path / "tier"))
    assert home.tier.stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("system", ["tmpfs", "nfs4"])
def test_in_memory_or_over_a_network_there_is_no_next_tier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    monkeypatch.setattr(files, "file_system", lambda path: system)
    monkeypatch.setattr("weft.system.home.file_system", lambda path: system)
    assert service_at(Home(tmp_path)) == Service(LIBRARY, "")
    assert not (tmp_path / "tier").exists()


@pytest.mark.usefixtures("there")
def test_where_its_folder_cannot_be_made_nothing_overflows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a file").write_text("")
    assert service_at(Home(tmp_path / "a file")) == Service(LIBRARY, "")
    assert "no memory can overflow to" in caplog.text


def test_a_library_that_cannot_be_used_is_as_if_it_were_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "libweft.so").write_text("no library")
    monkeypatch.setattr(allocator, "library_path", lambda: str(tmp_path / "libweft.so"))
    assert service_at(Home(tmp_path)) == NOT_SERVED
    assert "jobs run without the native library" in caplog.text
    monkeypatch.setattr(allocator, "library_path", lambda: None)
    assert preload.service_at(Home(tmp_path)) == NOT_SERVED
