"""What a command run by hand is bounded by: device memory, duty, a lane. Checked before anything is started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from weft.core.errors import InputError
from weft.core.value import value
from weft.node.devices.preload import NOT_SERVED, Service
from weft.node.task.control_page import ControlPage
from weft.runtime import allocator
from weft.runtime.page import lane_page, layout
from weft.system.files import file_system, is_in_memory
from weft.system.runtime_dir import private_folder
from weft.system.units import LOWEST_DEVICE_LIMIT_BYTES, LOWEST_LIMIT_BYTES, parsed_bytes, parsed_limit

SMALLEST_LANE_BYTES = 1 << 20
FOLDERS_ON_DISK = ("/var/tmp", "/tmp")  # noqa: S108 - the file made there has no name
SIGNED_WORD = range(-(1 << 63), 1 << 63)


@value
class CommandLimits:
    """Without the native library only a limit is possible, and the kernel's: of all private memory of a process."""

    service: Service = NOT_SERVED
    limit_bytes: int = 0
    is_strict: bool = False
    duty: int = 100
    lane: Path | None = None
    lane_capacity_bytes: int = 0
    lane_base: int = 0
    lane_weight: int = 0

    @property
    def process_bytes(self) -> int:
        """What bounds the private memory of each process (RLIMIT_DATA); 0 for nothing."""
        return 0 if self.service.is_there else self.limit_bytes

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """What the command's environment says to the library."""
        said = self.service.environment(base, is_strict=self.is_strict)
        if self.lane:
            said |= {"WEFT_LANE": str(self.lane), "WEFT_LANE_CAPACITY": str(self.lane_capacity_bytes)}
        return said

    def write(self, page: ControlPage) -> None:
        page.words[layout.LIMIT] = self.limit_bytes
        page.words[layout.DUTY] = self.duty
        page.words[layout.LANE_BASE] = self.lane_base & 0xFFFF_FFFF_FFFF_FFFF
        page.words[layout.LANE_WEIGHT] = self.lane_weight & 0xFFFF_FFFF_FFFF_FFFF


def the_library() -> tuple[str, str]:
    """The path of the native library, empty if it cannot be used here; then why not."""
    path = allocator.library_path()
    if path is None:
        is_off = "WEFT_NATIVE" in os.environ
        return "", "WEFT_NATIVE turns it off" if is_off else "weft was installed without its native library"
    why_not = allocator.why_not_usable(path)
    return ("", why_not) if why_not else (path, "")


def parsed_device_limit(text: str, is_served: bool) -> int:
    """A limit that a script can live with: of its tensors alone, or, without the library, of all it has."""
    if is_served:
        return parsed_limit(text, LOWEST_DEVICE_LIMIT_BYTES, "PyTorch could hardly do anything")
    return parsed_limit(text, LOWEST_LIMIT_BYTES)


def overflow_folder(named: Path | None) -> str:
    """Where memory over the limit goes, and what is swapped out; empty if there is no such place."""
    if named is None:
        folders = [os.environ.get("TMPDIR", ""), *FOLDERS_ON_DISK]
        return next((folder for folder in folders if folder and _is_on_disk(Path(folder))), "")
    if is_in_memory(named):
        raise InputError(
            f"{named} is on {file_system(named)}, in memory: what overflows would be there as before",
            "name a folder on disk: --overflow /var/tmp",
        )
    make_writable(named, f"nothing can overflow to {named}", "name another folder on disk: --overflow DIR")
    return str(named.absolute())


def make_writable(folder: Path, or_else: str, hint: str) -> None:
    """A folder that can be written to, made if need be; or an error before anything is started."""
    import tempfile

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"{or_else}: {(error.strerror or str(error)).lower()}", hint) from error


def _is_on_disk(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK) and not is_in_memory(folder)


def signed_word(number: int, option: str) -> int:
    if number not in SIGNED_WORD:
        raise InputError(f"{option} {number} is too large", "a whole number of 64 bits, with its sign")
    return number


def lane_at(name: str) -> Path:
    """The lane's page: a file in memory; by a plain name, in the folder of this user's pages. There may be none yet."""
    elsewhere = "a plain name, e.g. --lane a; or a file in memory, e.g. --lane /dev/shm/NAME"
    if name in ("", ".", ".."):
        raise InputError(f'"{name}" is no lane', elsewhere)
    path = Path(name).resolve() if "/" in name else private_folder() / f"{name}.lane"
    if not path.parent.is_dir():
        raise InputError(f"the lane {path} cannot be made: there is no folder {path.parent}", elsewhere)
    if not is_in_memory(path.parent):
        raise InputError(
            f"{path} would be on {file_system(path.parent)}; a lane's page must be in memory, "
            "because a disk could make each turn wait",
            elsewhere,
        )
    try:
        lane_page.check(str(path))
    except lane_page.LaneError as error:
        raise InputError(str(error), f"it is left as it was; {elsewhere}") from error
    return path


def lane_capacity(text: str | None) -> int:
    """Half of the memory we may use, unless it is said: the other half is for what lasts, of all its members."""
    if text is None:
        from weft.node.devices.device import machine_bytes

        return machine_bytes() // 2
    capacity_bytes = parsed_bytes(text)
    if capacity_bytes < SMALLEST_LANE_BYTES:
        raise InputError(f"a lane of {text} would hold next to nothing", "--lane-capacity takes 1M or more")
    return capacity_bytes
