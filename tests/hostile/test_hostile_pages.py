"""A job that writes to its own control page. It is lost with a reason; nothing else is."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from arrays import Attackers, crowded_box
from box import Attack, Box
from damage import DAMAGED_PAGES

from waiting import wait_until

LIES = {
    "a neighbour is its leader": "TASK_PID=neighbour, TASK_START=start(neighbour)",
    "the coordinator is its leader": "TASK_PID=coordinator, TASK_START=start(coordinator)",
    "the neighbour's shepherd is its leader": "TASK_PID=parent(neighbour), TASK_START=start(parent(neighbour))",
    "the neighbour claims its page": "CLAIM_PID=neighbour, CLAIM_START=start(neighbour)",
    "the coordinator launched it": "LAUNCHER_PID=coordinator, LAUNCHER_START=start(coordinator), "
    "TASK_PID=parent(neighbour), TASK_START=start(parent(neighbour))",
    "it is stopped though it runs": "STOPPED=1",
    "nothing of it was ever started": "TASK_PID=0, LAUNCHER_PID=0, CLAIM_PID=0",
    "it is in a gang of a million": "CLAIM_PID=os.getpid(), WORLD=1 << 20",
}
LIAR = """
import os, struct, sys, time
from weft.runtime.page import layout
from weft.runtime.procfs import PARENT, fields, start_time as start
from pathlib import Path

def parent(pid):
    return int(fields(pid)[PARENT])

def write(**words):
    with open(os.environ["WEFT_PAGE"], "r+b") as page:
        for name, number in words.items():
            page.seek(8 * getattr(layout, name))
            page.write(struct.pack("=Q", number))

home = Path(os.environ["WEFT_HOME"])
coordinator = int((home / "node.lock").read_text())
neighbour = {neighbour}
write({lie})
print("lied", flush=True)
time.sleep(3600)
"""
PID = "import os, struct, sys; print(struct.unpack_from('=Q', open(sys.argv[1], 'rb').read(), 48)[0])"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    yield from crowded_box(tmp_path_factory.mktemp("hostile"))


def test_a_damaged_page_loses_its_attempt_alone(box: Box, attack: Attack) -> None:
    attackers = Attackers(box, "pages", len(DAMAGED_PAGES))
    attackers.go()
    for index, name in enumerate(DAMAGED_PAGES):
        with attack(f"pages: {name}"):
            job = attackers.end_of(index)
            assert job["state"] == "FAILED", job
            assert "its control page is damaged" in job["reason"], job


def test_a_damaged_page_found_at_a_restart_loses_its_attempt_alone(box: Box, attack: Attack) -> None:
    attackers = Attackers(box, "pages", len(DAMAGED_PAGES))
    box.send(box.pid("coordinator"), signal.SIGSTOP)
    attackers.go()
    box.kill("coordinator")
    for index, name in enumerate(DAMAGED_PAGES):
        with attack(f"pages at a restart: {name}"):
            job = attackers.end_of(index)
            assert job["state"] == "FAILED", job
            assert "control page" in job["reason"], job


def test_a_page_that_lies_about_processes_has_nobody_signalled(box: Box, attack: Attack) -> None:
    """The liar is cancelled, so what is taken for its processes is asked to end, and killed."""
    page = f"{box.home.run}/{box.bystanders[0].job_id}.1.0.page"
    neighbour = int(box.python(PID, page).stdout)
    for name, lie in LIES.items():
        with attack(f"pages that lie: {name}"):
            job_id = box.submit_python(
                LIAR.replace("{neighbour}", str(neighbour)).replace("{lie}", lie), "--no-requeue"
            )
            wait_until(lambda job_id=job_id: "lied" in box.log(job_id), "it has lied")  # type: ignore[misc]
            box.says("cancel", job_id)
            assert box.wait_for(job_id)["state"] == "CANCELLED"
            assert box.is_alive(neighbour)


def test_a_liar_does_not_deceive_a_coordinator_that_comes_after(box: Box, attack: Attack) -> None:
    page = f"{box.home.run}/{box.bystanders[0].job_id}.1.0.page"
    neighbour = int(box.python(PID, page).stdout)
    sources = {name: LIAR.replace("{neighbour}", str(neighbour)).replace("{lie}", lie) for name, lie in LIES.items()}
    liars = {name: box.submit_python(source, "--no-requeue") for name, source in sources.items()}
    for job_id in liars.values():
        wait_until(lambda job_id=job_id: "lied" in box.log(job_id), "it has lied")  # type: ignore[misc]
    box.kill("coordinator")
    for name, job_id in liars.items():
        with attack(f"pages that lie at a restart: {name}"):
            box.says("cancel", job_id)
            assert box.wait_for(job_id)["state"] in ("CANCELLED", "FAILED")
            assert box.is_alive(neighbour)
