"""A real coordinator, ordered about: jobs are launched, tell their end, are stopped, and leave nothing behind."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from nodes import COORDINATOR, Node, lives

from waiting import PATIENCE_S, wait_until
from weft.protocol import VERSION
from weft.system.request_limits import ORDER_LINE_BYTES

UNTIL_TOLD = "while [ ! -e {} ]; do sleep 0.01; done; "
DAEMONISED = (  # a double fork, a session of its own, another environment, and nothing open
    "(setsid env -i sh -c 'echo $$ > {}; exec sleep 1000' < /dev/null > /dev/null 2>&1 &); "
)


def pid_in(path: Path) -> int:
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), f"{path.name} is written")
    return int(path.read_text())


def test_the_coordinator_tells_who_and_what_it_is(node: Node) -> None:
    hello = node.daemon.hellos[0]
    assert (hello["protocol"], hello["attempts"]) == (VERSION, [])
    assert hello["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert [device["index"] for device in hello["devices"]] == [0, 1]
    assert {device["kind"] for device in hello["devices"]} == {"cpu"}
    wait_until(lambda: bool(node.daemon.progress), "it beats though nothing runs")
    assert node.daemon.progress[0]["jobs"] == {}


def test_a_job_is_launched_as_its_submitter_would_have_run_it_and_its_end_is_told(node: Node) -> None:
    script = "pwd; umask; echo $WEFT_JOB_ID $WEFT_ATTEMPT $SUBMITTED; ls /proc/self/fd"
    signals = "grep SigIgn /proc/self/status | tail -c 9"
    launch = node.launch("sh", "-c", f"{script}; {signals}; echo error >&2; exit 3", umask=0o027)
    launch["env"]["SUBMITTED"] = "there"
    node.daemon.send({**node.run_order(), "launch": launch})
    end = node.daemon.end()
    assert (end["what"], end["exit_code"], end["generation"]) == ("ended", 3, 1)
    assert node.output().splitlines() == [
        str(node.folder), "0027", "1 1 there", "0", "1", "2", "3", "80000000", "error",
    ]  # fmt: skip
    # The last signal of those 32 is glibc's own: it leaves it ignored in whatever posix_spawn starts.
    assert node.home.log("1", 0).stat().st_mode & 0o777 == 0o600


def test_started_names_the_process_of_the_job(node: Node) -> None:
    node.daemon.send(node.run_order("sleep", "1000"))
    started = node.daemon.next("started")
    assert Path(f"/proc/{started['pids'][0]}/comm").read_text() == "sleep\n"


def test_after_the_acknowledgement_only_the_output_stays(node: Node) -> None:
    node.daemon.send(node.run_order("echo", "out"))
    node.daemon.end()
    wait_until(lambda: not (node.home.job("1") / "attempts").exists(), "the records are removed")
    assert sorted(each.name for each in node.home.job("1").iterdir()) == ["task-0.log"]
    wait_until(lambda: sorted(each.name for each in node.run.iterdir()) == ["node.sock"], "the page is removed")


def test_without_an_acknowledgement_a_report_is_repeated_on_the_next_connection(node: Node) -> None:
    node.daemon.acknowledges = lambda report: False
    node.daemon.on_hello = lambda: [node.run_order("true", generation=1)]
    node.daemon.send(node.run_order("true"))
    first = node.daemon.end()
    node.daemon.acknowledges = lambda report: True
    node.daemon.hang_up()
    wait_until(lambda: node.daemon.reports.count(first) == 2, "it is told again")
    wait_until(lambda: not (node.home.job("1") / "attempts").exists(), "the records are removed")


@pytest.mark.parametrize(
    ("command", "more", "code", "message"),
    [
        (["gone"], {}, 127, 'there is no command "gone"'),
        (["/"], {}, 126, "/ cannot be run: it is a folder"),
        (["true"], {"cwd": "/gone"}, 126, "its folder /gone cannot be entered: no such file or directory"),
        (["nul\0in"], {}, 126, "it cannot be run: execve: embedded null character in path"),
    ],
)
def test_a_command_that_cannot_start_says_why_in_its_output_and_its_end(
    node: Node, command: list[str], more: dict[str, str], code: int, message: str
) -> None:
    node.daemon.send(node.run_order(*command, **more))
    end = node.daemon.end()
    assert (end["what"], end["exit_code"], end["message"]) == ("ended", code, message)
    assert node.output().splitlines()[0] == f"error: {message}"
    assert not node.daemon.all("started")


def test_standard_error_is_kept_apart_on_request_and_attempts_append(node: Node) -> None:
    node.daemon.send(node.run_order("sh", "-c", "echo out; echo err >&2; kill -9 $$", split=True))
    assert node.daemon.end()["exit_code"] == 128 + 9
    node.daemon.send(node.run_order("echo", "again", attempt=2, generation=2, split=True))
    wait_until(lambda: len(node.daemon.all("ended")) == 2)
    assert node.output() == "out\nagain\n"
    assert node.home.log("1", 0, split=True).read_text() == "err\n"


def test_a_limit_bounds_the_memory_of_the_job(node: Node) -> None:
    code = "x = bytearray(10 << 20); print('small'); bytearray(1 << 30)"
    node.daemon.send(node.run_order(sys.executable, "-c", code, limit_bytes=256 << 20))
    assert node.daemon.end()["exit_code"] == 1
    assert node.output().startswith("small\n")
    assert "MemoryError" in node.output()


def test_a_job_runs_on_the_cores_of_its_devices_with_as_many_threads(node: Node) -> None:
    cores = [device["cores"] for device in node.daemon.hellos[0]["devices"]]
    said = "os.environ['OMP_NUM_THREADS'], os.environ['OMP_WAIT_POLICY']"
    code = f"import os; print(sorted(os.sched_getaffinity(0)), {said})"
    node.daemon.send(node.run_order(sys.executable, "-c", code, on=(1,)))
    assert node.daemon.end()["exit_code"] == 0
    assert node.output() == f"{cores[1]} {len(cores[1])} passive\n"


def test_what_fails_the_coordinator_never_reaches_a_job(unstarted: Node) -> None:
    unstarted.start(WEFT_FAIL_AT="nowhere", WEFT_FAIL_WITH="STOP")
    unstarted.await_hello()
    unstarted.daemon.send(unstarted.run_order("sh", "-c", "env | grep WEFT_FAIL"))
    assert unstarted.daemon.end()["exit_code"] == 1
    assert unstarted.output() == ""


def test_what_a_job_leaves_behind_is_gone_before_its_end_is_told(node: Node) -> None:
    stray = node.folder / "stray"
    until_written = f"while [ ! -s {stray} ]; do sleep 0.01; done"
    node.daemon.send(node.run_order("sh", "-c", DAEMONISED.format(stray) + until_written))
    assert node.daemon.end()["exit_code"] == 0
    assert not lives(pid_in(stray))


def test_stop_asks_first(node: Node) -> None:
    code = "trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
    node.daemon.send(node.run_order("sh", "-c", code))
    wait_until(lambda: "ready" in node.output())
    node.order("stop")
    assert node.daemon.end()["exit_code"] == 7
    assert node.output().endswith("asked\n")


def test_who_does_not_listen_is_killed_with_its_whole_tree(node: Node) -> None:
    stray = node.folder / "stray"
    code = f"trap '' TERM; {DAEMONISED.format(stray)} echo ready; while :; do sleep 0.01; done"
    node.daemon.send({"type": "synced", "stop_grace_s": 0.1, "pause_grace_s": 1})
    node.daemon.send(node.run_order("sh", "-c", code))
    wait_until(lambda: "ready" in node.output())
    node.order("stop")
    assert node.daemon.end()["exit_code"] == 128 + 9
    assert not lives(pid_in(stray))


def test_an_order_that_is_repeated_does_nothing_twice(node: Node) -> None:
    for _ in range(3):
        node.daemon.send(node.run_order("sh", "-c", "echo once; sleep 1000"))
    node.daemon.next("started")
    for _ in range(3):
        node.daemon.send(node.run_order("sh", "-c", "echo once; sleep 1000", generation=2))
        node.order("stop", generation=2)
    assert node.daemon.end()["exit_code"] == 128 + 15
    assert node.output() == "once\n"
    assert [report["what"] for report in node.daemon.reports] == ["started", "ended"]


def test_an_order_of_an_older_generation_is_dropped(node: Node) -> None:
    node.daemon.send(node.run_order("sleep", "1000", generation=5))
    node.daemon.next("started")
    node.order("stop", generation=4)
    node.daemon.send(node.run_order("true", job="2", on=(1,)))
    assert node.daemon.end("2")["exit_code"] == 0
    assert not node.daemon.all("ended")


def test_a_device_is_granted_only_when_it_is_empty(node: Node) -> None:
    over = node.folder / "over"
    node.daemon.send(node.run_order("sh", "-c", UNTIL_TOLD.format(over) + "date +%s.%N"))
    node.daemon.next("started")
    node.daemon.send(node.run_order("date", "+%s.%N", job="2"))
    node.daemon.send(node.run_order("true", job="3", on=(1,)))
    node.daemon.end("3")
    assert not node.daemon.all("started", "2")
    over.touch()
    assert node.daemon.end("2")["exit_code"] == 0
    assert float(node.output()) < float(node.output("2"))


def test_a_later_attempt_waits_until_the_earlier_one_is_gone(node: Node) -> None:
    pid = node.folder / "pid"
    node.daemon.send(node.run_order("sh", "-c", f"trap '' TERM; echo $$ > {pid}; while :; do sleep 0.01; done"))
    first = pid_in(pid)
    node.daemon.send(node.run_order("sh", "-c", f"kill -0 {first}", attempt=2, generation=2, on=(1,)))
    end = node.daemon.end()
    assert (end["attempt"], end["exit_code"]) == (2, 1)
    assert "No such process" in node.output()


def test_a_job_that_waits_for_a_device_can_be_stopped_and_put_off(node: Node) -> None:
    node.daemon.send(node.run_order("sleep", "1000"))
    node.daemon.next("started")
    node.daemon.send(node.run_order("true", job="2"))
    node.order("pause", job="2", needs_bytes=None)
    assert node.daemon.next("paused", "2")["reason"] == "it had not been started"
    node.order("stop", job="2")
    end = node.daemon.end("2")
    assert (end["exit_code"], end["message"]) == (143, "stopped before its command was started")


def test_what_is_asked_of_an_attempt_that_is_not_here_is_answered(node: Node) -> None:
    node.order("stop")
    end = node.daemon.end()
    assert (end["what"], end["message"], end["never"]) == ("lost", "nothing of it is on this node", True)


def test_a_job_that_is_put_off_after_its_launch_failed_holds_no_device(node: Node) -> None:
    in_the_way = node.home.checkpoints("1")
    in_the_way.parent.mkdir(parents=True)
    in_the_way.touch()
    node.daemon.send(node.run_order("true"))
    wait_until(lambda: "trying again" in node.home.node_log.read_text(), "the launch fails")
    node.order("pause", needs_bytes=None)
    node.daemon.next("paused")
    node.daemon.send(node.run_order("true", job="2"))
    assert node.daemon.end("2")["exit_code"] == 0


def test_an_attempt_whose_records_cannot_be_read_is_lost_and_holds_up_no_other(node: Node) -> None:
    loop = node.home.job("1") / "attempts"
    loop.parent.mkdir(parents=True)
    loop.symlink_to(loop)
    node.daemon.on_hello = lambda: [node.run_order("true"), node.run_order("true", job="2", on=(1,))]
    node.daemon.hang_up()
    assert node.daemon.end("2")["exit_code"] == 0
    assert "its record attempt.json is damaged" in node.daemon.next("lost")["message"]
    node.daemon.send(node.run_order("true", attempt=2, generation=2))
    assert node.daemon.next("ended")["exit_code"] == 0


def test_what_the_daemon_does_not_know_is_ended(node: Node) -> None:
    node.daemon.send(node.run_order("sleep", "1000"))
    node.daemon.next("started")
    node.daemon.hang_up()
    wait_until(lambda: len(node.daemon.hellos) == 2)
    assert node.daemon.hellos[1]["attempts"] == [{"job": "1", "attempt": 1, "generation": 1, "state": "running"}]
    wait_until(lambda: not node.alive(), "its processes are gone")
    wait_until(lambda: not (node.home.job("1") / "attempts").exists())
    assert not node.daemon.all("ended")


def test_without_a_daemon_jobs_go_on_and_their_end_is_told_to_the_next(node: Node) -> None:
    over = node.folder / "over"
    order = node.run_order("sh", "-c", UNTIL_TOLD.format(over) + "exit 4")
    node.daemon.on_hello = lambda: [order]
    node.daemon.send(order)
    node.daemon.next("started")
    node.daemon.leave()
    over.touch()
    wait_until(lambda: (node.home.task("1", 1, 0) / "status.json").exists())
    node.daemon.listen()
    assert node.daemon.end()["exit_code"] == 4


def test_a_second_coordinator_says_that_there_is_one(node: Node) -> None:
    env = {**os.environ, "WEFT_HOME": str(node.home.root)}
    second = subprocess.run(COORDINATOR, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert second.returncode == 1
    assert second.stderr == (
        f"error: a coordinator runs already for {node.home.root}: process {node.process.pid}\nhint: weft down ends it\n"
    )


def test_devices_that_make_no_sense_are_refused_with_a_hint(unstarted: Node) -> None:
    env = {**os.environ, "WEFT_HOME": str(unstarted.home.root)}
    command = [*COORDINATOR, "--devices", "tpu"]
    refused = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert refused.returncode == 1
    assert refused.stderr.startswith('error: "tpu" chooses no devices\nhint: cpu=4')


@pytest.mark.parametrize("how", ["leave", "SIGTERM"])
def test_a_coordinator_that_leaves_leaves_its_jobs_and_the_next_adopts_them(node: Node, how: str) -> None:
    over = node.folder / "over"
    order = node.run_order("sh", "-c", UNTIL_TOLD.format(over) + "exit 4")
    node.daemon.send(order)
    node.daemon.next("started")
    if how == "leave":
        node.daemon.send({"type": "leave"})
    else:
        os.kill(node.process.pid, signal.SIGTERM)
    assert node.process.wait(PATIENCE_S) == 0
    hello = node.restart(order)
    assert hello["attempts"] == [{"job": "1", "attempt": 1, "generation": 1, "state": "running"}]
    over.touch()
    assert node.daemon.end()["exit_code"] == 4


def test_ranks_of_a_gang_know_each_other_and_share_the_devices_out(node: Node) -> None:
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    code = f"import os, json; print(json.dumps([os.environ[name] for name in {names}] + list(os.sched_getaffinity(0))))"
    node.daemon.send(node.run_order(sys.executable, "-c", code, on=(0, 1), tasks=2))
    assert node.daemon.end()["exit_code"] == 0
    assert len(node.daemon.next("started")["pids"]) == 2
    first, second = (json.loads(node.output(task=rank)) for rank in (0, 1))
    port = first[5]
    assert int(port) > 1024
    assert first == ["0", "0", "2", "2", "127.0.0.1", port, *node.daemon.hellos[0]["devices"][0]["cores"]]
    assert second == ["1", "1", "2", "2", "127.0.0.1", port, *node.daemon.hellos[0]["devices"][1]["cores"]]


def test_a_gang_ends_as_the_first_of_its_ranks_that_fails(node: Node) -> None:
    code = "[ $RANK = 1 ] && exit 5; trap 'exit 9' TERM; while :; do sleep 0.01; done"
    node.daemon.send(node.run_order("sh", "-c", code, on=(0, 1), tasks=2))
    assert node.daemon.end()["exit_code"] == 5
    assert not node.alive()


def test_a_job_may_open_as_many_files_as_weft_was_started_with(unstarted: Node) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowered = min(hard, 512)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowered, hard))
    try:
        pid = unstarted.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    unstarted.await_hello()
    assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (min(hard, 1 << 16), hard)
    unstarted.daemon.send(unstarted.run_order("sh", "-c", "ulimit -n; ulimit -Hn; env | grep SOFT_NOFILE"))
    unstarted.daemon.end()
    assert unstarted.output().split() == [str(lowered), str(hard)]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"command": []}, "malformed"),
        ({"command": "true"}, "malformed"),
        ({"command": ["true", 7]}, "malformed"),
        ({"env": {"A": 7}}, "malformed"),
        ({"env": [["A", "b"]]}, "malformed"),
        ({"cwd": None}, "malformed"),
        ({"umask": "022"}, "malformed"),
        ({"tasks": 0}, "malformed"),
        ({"devices_per_task": -1}, "makes no sense"),
    ],
)
def test_an_order_that_cannot_be_followed_is_refused_and_the_next_one_is_followed(
    node: Node, changed: dict[str, object], why: str
) -> None:
    node.daemon.send(node.run_order("true", **changed))
    assert why in node.daemon.next("refused")["message"]
    node.daemon.send(node.run_order("true", job="2"))
    assert node.daemon.end("2")["exit_code"] == 0


def test_lines_that_are_no_messages_are_skipped(node: Node) -> None:
    assert node.daemon._stream is not None
    long_order = node.run_order("true", "x" * ORDER_LINE_BYTES)
    for line in (b"{", b"\xff\xfe", b"", b"7", b'{"type": []}', b"[" * 100_000, json.dumps(long_order).encode()):
        node.daemon._stream.sendall(line + b"\n")
    assert "too long" in node.daemon.next("refused")["message"]
    node.daemon.send({"type": "run", "job": "3", "attempt": 1})
    assert node.daemon.next("refused", "3")["message"]
    node.daemon.send(node.run_order("true", job="2"))
    assert node.daemon.end("2")["exit_code"] == 0
    assert len(node.daemon.hellos) == 1, "the line was never closed"


def test_without_descriptors_no_job_is_started_and_those_that_run_go_on(node: Node) -> None:
    assert node.process is not None
    pid, go_on = node.process.pid, node.folder / "go-on"
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    node.daemon.send(node.run_order("sh", "-c", UNTIL_TOLD.format(go_on)))
    node.daemon.next("started")
    is_open = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (is_open + 3, before[1]))
    node.daemon.send(node.run_order("true", job="2", on=(1,)))
    wait_until(lambda: "few are left" in str(node.daemon.progress[-1:]), "it says so")
    assert not node.daemon.all("started", "2")
    go_on.touch()
    assert node.daemon.end()["exit_code"] == 0
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert node.daemon.end("2")["exit_code"] == 0
    wait_until(lambda: not node.daemon.progress[-1]["warnings"], "nothing is left to say")
