"""What `weft doctor` checks: the installation, this machine, the log and the daemon."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import json
import os
import platform
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from weft import __version__
from weft.cli.render.tables import size
from weft.client import Client, NotRunningError
from weft.core.errors import InputError, WeftError
from weft.node.exec.command_limits import the_library
from weft.node.fence.cgroups import BY_CGROUP, HOW_TO_HAVE_ONE, find_fences
from weft.runtime.allocator import VERSION
from weft.runtime.page.futex import CALLS
from weft.system.files import file_system, user_name
from weft.system.home import Home
from weft.system.runtime_dir import private_folder

OLDEST_PYTHON = (3, 11)
LEAST_DISK_BYTES = 1 << 30
LEAST_MEMORY_BYTES = 16 << 20
MOST_SKEW_S = 2.0
ESCAPES = "a process that leaves its session, clears its environment and outlives weft's own processes can escape"
OFF_WITHOUT_LIBRARY = "lanes, duty, overflow, swap-out, limits of device memory alone, and what jobs use of it"


@dataclass(frozen=True)
class Finding:
    what: str
    is_ok: bool
    says: str
    hint: str = ""


def findings() -> list[Finding]:
    home = Home.find()
    machine = [_python(), _torch(), _native(), *_home(home), _pages(), _pidfd(), _futex(), _nvml()]
    if not _is_ours(home):  # nothing in it can be looked at, nor is ours to judge
        return machine
    return [*machine, _fencing(home), _settings(home), *_log(home), *_daemon(home)]


def _is_ours(home: Home) -> bool:
    return not home.root.exists() or home.root.stat().st_uid == os.getuid()


def _python() -> Finding:
    version = f"{platform.python_version()}, {sys.executable}"
    return Finding("Python", sys.version_info >= OLDEST_PYTHON, version, "weft needs 3.11 or newer")


def _torch() -> Finding:
    """That it is missing here is no fault: a job may use the Python of another environment."""
    is_there = importlib.util.find_spec("torch") is not None
    return Finding("PyTorch", True, "found" if is_there else "not in this environment; jobs may bring their own")


def _native() -> Finding:
    """Without it jobs run, but without limits or accounting of their device memory."""
    library, why_not = the_library()
    if library:
        return Finding("native library", True, f"{library}, version {VERSION}")
    hint = "with a C compiler (cc, or CC=...) on this machine, install weft again: pip install --force-reinstall ."
    return Finding("native library", False, f"{why_not}; not available: {OFF_WITHOUT_LIBRARY}", hint)


def _home(home: Home) -> Iterator[Finding]:
    there = next(each for each in [home.root, *home.root.parents] if each.exists())
    elsewhere = "use a folder of your own: WEFT_HOME=DIR weft doctor"
    if there == home.root and there.stat().st_uid != os.getuid():
        yield Finding("home", False, f"{home.root} belongs to {user_name(there.stat().st_uid)}", elsewhere)
    elif not os.access(there, os.W_OK | os.X_OK):
        yield Finding("home", False, f"{home.root} cannot be written to", elsewhere)
    elif there == home.root and stat.S_IMODE(there.stat().st_mode) & 0o077:
        yield Finding("home", False, f"{home.root} is open to other users", f"chmod 700 {home.root}")
    else:
        yield Finding("home", True, f"{home.root}{'' if there == home.root else ', not made yet'}")
    system = file_system(home.root)
    is_local = not home.on_network
    says = f"{system}{'' if is_local else ', a network file system, where locks and the log do not hold'}"
    yield Finding("file system", is_local, says, "name a folder on a local disk: WEFT_HOME=DIR weft up")
    free_bytes = shutil.disk_usage(there).free
    says = f"{size(free_bytes)} free"
    yield Finding("disk", free_bytes >= LEAST_DISK_BYTES, says, "make room: logs and checkpoints go there")


def _pages() -> Finding:
    try:
        folder = private_folder()
        free_bytes = shutil.disk_usage(folder).free
    except (WeftError, OSError) as error:
        return Finding("memory for pages", False, str(error).splitlines()[0], "mount a tmpfs at /dev/shm")
    says = f"{folder}, {size(free_bytes)} free"
    return Finding(
        "memory for pages", free_bytes >= LEAST_MEMORY_BYTES, says, "a larger /dev/shm: --shm-size of docker"
    )


def _pidfd() -> Finding:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        return Finding("pidfd", False, f"not offered: {error}", "Linux 5.3 or newer, and a sandbox that allows it")
    return Finding("pidfd", True, "offered")


def _fencing(home: Home) -> Finding:
    """As the coordinator found it where it runs; before its first start, as it is here. Scans alone are no fault."""
    if home.fencing.is_file():
        says = home.fencing.read_text(encoding="utf-8", errors="replace").strip()
    else:
        there = next(each for each in [home.root, *home.root.parents] if each.exists())
        fences = find_fences("auto", there)
        fences.remove()
        says = fences.says
    is_by_cgroup = says.startswith(BY_CGROUP)
    return Finding("fencing", True, says if is_by_cgroup else f"{says}; {ESCAPES}. To have one: {HOW_TO_HAVE_ONE}")


def _futex() -> Finding:
    call = CALLS.get(platform.machine())
    if call is None:
        return Finding("futex", True, f"not known for {platform.machine()}; pauses are polled for")
    word = ctypes.c_uint32(0)
    wake_one = (ctypes.c_long(call), ctypes.byref(word), ctypes.c_int(1), ctypes.c_uint(1), None, None, ctypes.c_int(0))
    is_offered = ctypes.CDLL(None, use_errno=True).syscall(*wake_one) == 0
    return Finding(
        "futex", is_offered, "offered" if is_offered else os.strerror(ctypes.get_errno()), "is it sandboxed?"
    )


def _nvml() -> Finding:
    """No GPU is no fault: the machine's cores are devices then. A driver that cannot be used is one."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        is_there = Path("/dev/nvidia0").exists()
        says = "no NVIDIA driver; this machine's cores are the devices"
        hint = "is libnvidia-ml.so.1 where the linker looks? In a container: --gpus all"
        return Finding("GPUs", not is_there, "devices are there, but no libnvidia-ml.so.1" if is_there else says, hint)
    code = nvml.nvmlInit_v2()
    if code:
        return Finding("GPUs", False, f"NVML does not start: code {code}", "nvidia-smi says more")
    number = ctypes.c_uint(0)
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(number))
    nvml.nvmlShutdown()
    return Finding("GPUs", True, f"{number.value} found by NVML")


def _settings(home: Home) -> Finding:
    from weft.system.settings import load_settings

    try:
        settings = load_settings(home.settings, os.environ, {})
    except InputError as error:
        return Finding("settings", False, error.message, error.hint)
    where = home.settings if home.settings.exists() else "no weft.toml, so all settings are the defaults"
    return Finding("settings", True, f"{where}; policy {settings.policy}")


def _log(home: Home) -> Iterator[Finding]:
    """Is it what was written, and how old is the newest copy of it?"""
    if not home.database.exists() and not home.watermark.exists():
        return
    command = [sys.executable, "-P", "-m", "weft.control.store.log_tool", "check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    try:
        problems = json.loads(done.stdout)["problems"]
    except (ValueError, KeyError, TypeError):
        problems = [(done.stderr.strip().splitlines() or ["it cannot be read"])[-1]]
    says = f"{len(problems)} faults: {problems[0]}" if problems else "sound"
    yield Finding("log", not problems, says, "weft down, then weft repair; jobs that run go on")
    ages_s = [time.time() - each.stat().st_mtime for each in home.backups.glob("weft-*.db")]
    says = f"the newest is {min(ages_s) / 3600:.1f} h old, of {len(ages_s)}" if ages_s else "none yet"
    yield Finding("backups", True, f"{says}, in {home.backups}; weft backup makes one")


def _daemon(home: Home) -> Iterator[Finding]:
    try:
        client = Client(home, timeout_s=5.0)
        health = client.health()
    except NotRunningError:
        yield Finding("daemon", True, "not running; weft run, weft submit or weft up starts it")
        return
    except WeftError as error:
        yield Finding("daemon", False, error.message, error.hint)
        return
    is_same = health["version"] == __version__
    says = f"process {health['pid']}, policy {health['policy']}, version {health['version']}"
    says += "" if is_same else f", but this is {__version__}"
    yield Finding("daemon", is_same, says, "weft down, then weft up; jobs go on meanwhile")
    yield _clock(health)
    for warning in health["warnings"]:
        yield Finding("daemon warning", os.geteuid() == 0 and "root" in warning, warning)
    try:
        yield from _nodes(client, home)
    except WeftError as error:
        yield Finding("nodes", False, error.message, error.hint)


def _clock(health: dict[str, Any]) -> Finding:
    """The daemon's never goes back, so after the machine's was set back they differ for a while."""
    ahead_s = (datetime.fromisoformat(health["now"]) - datetime.now(UTC)).total_seconds()
    is_ok = abs(ahead_s) < MOST_SKEW_S
    says = "agrees with the daemon's" if is_ok else f"the daemon's is {ahead_s:+.0f} s off"
    return Finding("clock", is_ok, says, "was it set? until they meet again, times in listings are the daemon's")


def _nodes(client: Client, home: Home) -> Iterator[Finding]:
    nodes = client.nodes()
    there = [node for node in nodes if node["devices"]]
    hint = f"see {home.node_log}; then weft down, then weft up"
    yield Finding("coordinator", bool(there), "connected" if there else "not connected", hint)
    devices = [device for node in there for device in node["devices"]]
    unmanaged = [device for device in devices if device["state"] == "unmanaged"]
    names = ", ".join(f"{device['kind']}:{device['index']} ({device['type']})" for device in devices[:8])
    if there:
        yield Finding("devices", bool(devices), f"{len(devices)}: {names}", "weft up --devices cpu=2")
    for device in unmanaged:
        says = f"{device['kind']}:{device['index']} is not used: {device['blocked_by']}"
        yield Finding("device", False, says, "it is used again when that process has ended")
