"""A full disk: what cannot be written is refused, nothing that was acknowledged is lost, and it goes on afterwards."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos import Chaos

from waiting import wait_until
from weft.client import Client
from weft.core.errors import WeftError

SIZE = "4M"


@contextlib.contextmanager
def small_disk() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="weft-full-") as folder:
        mounting = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder]
        if os.getuid() or subprocess.run(mounting, capture_output=True, check=False).returncode:
            pytest.skip("needs the right to mount a small disk")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_is_survived() -> None:
    with small_disk() as folder:
        chaos = Chaos(folder, seed=0)
        chaos.up()
        try:
            wait_until(chaos.is_up, "weft is up")
            go = folder / "go"
            waits = f"import os,time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\nraise SystemExit(3)"
            with Client(chaos.home) as client:
                running = client.submit([sys.executable, "-c", waits])
                queued = [client.submit(["true"], hold=True) for _ in range(3)]
                client.wait(running, state_not="PENDING")
                ballast = _fill(folder)
                refusal = _refused(client, queued[0])
                assert "full" in str(refusal), refusal
                assert "free some space" in refusal.hint
                assert [job["id"] for job in client.queue()] == [running, *queued]
                assert any("cannot be written" in warning for warning in client.health()["warnings"])
                go.touch()  # an empty file finds room; what its end has to say does not
                assert client.wait(running, timeout_s=0.5)["state"] == "RUNNING"
                ballast.unlink()
                assert client.wait(running)["exit_code"] == 3
                client.release(*queued)
                again = client.submit(["true"])
                assert [client.wait(job_id)["state"] for job_id in [*queued, again]] == ["SUCCEEDED"] * 4
        finally:
            chaos.down()


def _fill(folder: Path) -> Path:
    """Every last byte."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return ballast


def _refused(client: Client, held: str) -> WeftError:
    """The log has some room in its last page; sooner or later it is full. To hold who is held changes nothing."""
    for _ in range(1000):
        try:
            client.hold(held)
        except WeftError as error:
            return error
    raise AssertionError("a full disk takes whatever is written to it")
