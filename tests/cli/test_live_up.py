"""`weft up` and `weft down`: starting, stopping, and what is said where nothing runs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from command import Weft
from livehome import Live, has_gone

from waiting import PATIENCE_S, wait_until
from weft.client import Client


def test_running_jobs_outlive_down_and_are_adopted_by_the_next_up(own: Live) -> None:
    own.up()
    daemon, node = own.daemon_pid(), int(own.home.node_lock.read_text())
    program = "echo here; while [ ! -e go ]; do sleep 0.01; done; echo gone on; exit 4"
    job_id = own.submit("--", "sh", "-c", program)
    log = own.home.log(job_id, 0)
    wait_until(lambda: log.exists() and log.read_text() == "here\n", "it has started")
    down = own.weft("down").stderr.splitlines()
    assert down[0] == "weft is down"
    assert down[1].startswith("1 job continues, and the next weft up adopts it; ")
    assert down[1].endswith("weft up, then weft down --stop-jobs")
    assert has_gone(daemon)
    assert has_gone(node)
    Path("go").touch()
    wait_until(lambda: log.read_text() == "here\ngone on\n", "it has gone on without weft")
    own.up()
    own.is_("FAILED", job_id)
    assert own.job(job_id)["exit_code"] == 4


def test_a_client_starts_weft_and_has_all_the_verbs(own: Live) -> None:
    with Client(own.home.root, start=True) as client:
        pid = client.health()["pid"]
        job = client.run(["sh", "-c", "echo printed; exit 3"], name="first", gpu_mem="1G")
        assert (job["state"], job["exit_code"], job["name"]) == ("FAILED", 3, "first")
        assert list(client.logs(job["id"], follow=True)) == ["printed\n"]
        held = client.submit("true", hold=True)
        assert [each["id"] for each in client.queue()] == [held]
        assert len(client.queue(all=True)) == 2
        assert client.why(held)["state"] == client.status(held)["state"] == "PENDING"
        assert client.release(held) == [held]
        assert client.wait(held)["state"] == "SUCCEEDED"
        assert client.events(held)
        assert [each["id"] for each in client.history(limit=1)] == [held]
        elements = client.submit("sleep 600", array="1-2", hold=True)
        assert client.hold(*elements) in (elements, [])
        assert client.cancel(*elements) == elements
        assert client.nodes()[0]["devices"]
        assert client.policy("fifo") == client.policy() == "fifo"
        client.shutdown()
    os.waitpid(pid, 0)  # it was started by this very process


def test_down_can_stop_jobs_and_those_that_wait_stay_in_the_queue(own: Live) -> None:
    own.up()
    running, waiting = own.submit("--", "sleep", "600"), own.submit("--hold", "--", "true")
    own.is_("RUNNING", running)
    pids = own.job(running)["pids"]
    assert own.weft("down", "--stop-jobs").returncode == 0
    assert all(map(has_gone, pids))
    own.up()
    assert own.says("queue", "--parsable").split() == [waiting]
    job = own.job(running)
    assert (job["state"], job["reason"]) == ("CANCELLED", "ended by weft down --stop-jobs")


def test_down_waits_for_the_end_of_jobs_that_do_not_want_to(own: Live) -> None:
    own.home.make()
    own.home.settings.write_text("stop_grace_s = 0.5\n")
    own.up()
    job_id = own.submit("--", "sh", "-c", "trap '' TERM; echo here; while :; do sleep 0.01; done")
    log = own.home.log(job_id, 0)
    wait_until(lambda: log.exists() and log.read_text() == "here\n", "it has started")
    pids = own.job(job_id)["pids"]
    assert own.weft("cancel", job_id).returncode == 0
    assert own.weft("down").stderr.splitlines()[0] == "weft is down"
    assert all(map(has_gone, pids)), "it was cancelled before, and weft saw to its end"
    own.up()
    assert own.job(job_id)["reason"] == "cancelled"


def test_a_killed_daemon_leaves_a_coordinator_that_down_ends(own: Live) -> None:
    own.up()
    node = int(own.home.node_lock.read_text())
    own.kill_daemon()
    assert own.weft("down").returncode == 0
    assert has_gone(node)


def test_logs_are_read_without_a_daemon(own: Live) -> None:
    own.up()
    job_id = own.submit("--", "echo", "printed")
    own.is_("SUCCEEDED", job_id)
    own.says("down")
    assert own.says("logs", job_id) == "printed\n"


@pytest.mark.parametrize("words", [["queue"], ["status", "1"], ["cancel", "1"], ["nodes"], ["logs", "1"]])
def test_without_a_daemon_the_way_to_one_is_said(own: Live, words: list[str]) -> None:
    done = own.weft(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: weft is not running\nhint: weft up\n"


def test_without_a_daemon_down_has_nothing_to_do(own: Live) -> None:
    done = own.weft("down")
    assert (done.returncode, done.stderr) == (0, "weft is not running\n")


def test_without_a_daemon_completion_is_silent(own: Live) -> None:
    done = own.weft(_WEFT_COMPLETE="bash_complete", COMP_WORDS="weft cancel ", COMP_CWORD="2")
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_a_daemon_that_cannot_start_is_quoted(own: Live) -> None:
    own.home.make()
    own.home.settings.write_text("policy = \n")
    done = own.weft("up")
    assert done.returncode == 1
    assert "the daemon did not start: " in done.stderr
    assert "weft.toml is not TOML" in done.stderr


def test_the_foreground_is_left_by_an_interrupt(own: Live) -> None:
    process_ = own.starts("up", "--foreground", "--devices", "cpu=1")
    wait_until(lambda: own.weft("nodes").returncode == 0, "it answers")
    process_.send_signal(signal.SIGINT)
    process_.communicate(timeout=PATIENCE_S)
    assert process_.returncode in (0, 130)
    assert own.weft("queue").returncode == 1


def test_a_home_on_a_network_file_system_is_refused(
    weft: Weft, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WEFT_HOME", str(tmp_path / "far"))
    monkeypatch.setattr("weft.system.home.file_system", lambda path: "nfs4")
    refused = weft("up")
    assert refused.exit_code == 1
    assert "nfs4, a network file system" in refused.stderr
    assert "WEFT_HOME=DIR" in refused.stderr
    assert not (tmp_path / "far").exists()


def test_the_doctor_says_what_is_off(own: Live) -> None:
    own.home.make()
    own.home.root.chmod(0o755)
    done = own.weft("doctor")
    assert done.returncode == 1
    assert f"off  home: {own.home.root} is open to other users\n     hint: chmod 700" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_is_warned(own: Live) -> None:
    assert "root" in own.weft("up", "--devices", "cpu=1").stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize(("uid", "whose"), [(65534, "user nobody"), (4_000_000, "user 4000000")])
def test_the_home_of_somebody_else_is_named_by_its_owner(own: Live, uid: int, whose: str) -> None:
    own.home.make()
    for path in [own.home.root, *own.home.root.iterdir()]:
        os.chown(path, uid, uid)
    done = own.weft("doctor")
    assert done.returncode == 1
    assert (
        f"off  home: {own.home.root} belongs to {whose}\n     hint: use a folder of your own: WEFT_HOME" in done.stdout
    )
    assert "settings" not in done.stdout
    assert f"error: {own.home.root} belongs to {whose}\n" in own.weft("queue").stderr
    for path in [own.home.root, *own.home.root.iterdir()]:
        os.chown(path, 0, 0)
