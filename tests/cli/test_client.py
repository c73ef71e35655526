"""`weft.Client` and a daemon that breaks off, is restarted, is stopped, or was never there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from standin import Says, StandIn

import weft
from waiting import state_of, wait_until
from weft.client import Client, NotRunningError, UnreachableError
from weft.core.errors import InputError, WeftError
from weft.node.devices.preload import INJECT
from weft.system.home import Home

JOB = {"id": "1", "state": "SUCCEEDED", "exit_code": 0}
Serve = Callable[..., StandIn]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    home.make()
    yield home
    home.run.rmdir()


@pytest.fixture
def serve(home: Home) -> Iterator[Serve]:
    with ExitStack() as closing:

        def serve(says: Says, **how: bool) -> StandIn:
            server = StandIn(home.socket, says, **how)
            closing.callback(server.close)
            return server

        yield serve


def submitted(method: str, target: str, body: Any) -> tuple[int, Any]:
    return 201, {"id": "1", "ids": ["1"]}


def test_without_a_daemon_the_way_to_one_is_said(home: Home) -> None:
    with pytest.raises(NotRunningError) as caught:
        Client(home).queue()
    assert caught.value.message == "weft is not running"
    assert caught.value.hint == "weft up"


def test_a_socket_that_a_killed_daemon_left_is_no_daemon(home: Home, serve: Serve) -> None:
    server = serve(submitted)
    server.shutdown()
    server.server_close()
    assert home.socket.exists()
    with pytest.raises(NotRunningError):
        Client(home).queue()


def test_a_submit_whose_answer_was_lost_is_sent_again_under_the_same_name(home: Home, serve: Serve) -> None:
    answers = iter([None, (201, {"id": "7", "ids": ["7"]})])
    server = serve(lambda *_: next(answers))
    assert Client(home).submit(["true"]) == "7"
    names = [body["request_id"] for _, _, body in server.asked]
    assert len(names) == 2
    assert len(set(names)) == 1


def test_two_submits_have_two_names(home: Home, serve: Serve) -> None:
    server = serve(submitted)
    client = Client(home)
    client.submit(["true"])
    client.submit(["true"])
    assert len({body["request_id"] for _, _, body in server.asked}) == 2


def test_a_daemon_that_is_restarted_in_the_middle_is_waited_for(home: Home, serve: Serve) -> None:
    ended = threading.Event()

    def breaks_off(*_: Any) -> None:
        threading.Thread(target=end).start()
        ended.wait()

    def end() -> None:
        server.close()
        ended.set()

    server = serve(breaks_off)
    got: list[str] = []
    asking = threading.Thread(target=lambda: got.append(Client(home).submit(["true"])))
    asking.start()
    ended.wait()
    serve(submitted)
    asking.join()
    assert got == ["1"]


def test_a_daemon_that_went_in_the_middle_and_stays_away_is_said_to_be_gone(home: Home, serve: Serve) -> None:
    serve(lambda *_: None)
    client = Client(home)
    client.restart_s = 0.05
    with pytest.raises(UnreachableError, match="ended during the request"):
        client.queue()


def test_a_shutdown_is_never_asked_for_twice(home: Home, serve: Serve) -> None:
    server = serve(lambda *_: None)
    with pytest.raises(UnreachableError):
        Client(home).shutdown()
    assert len(server.asked) == 1


def test_a_connection_that_was_closed_while_idle_is_opened_anew(home: Home, serve: Serve) -> None:
    server = serve(lambda *_: (200, {"jobs": []}), closes=True)
    client = Client(home)
    assert client.queue() == client.queue() == []
    assert len(server.asked) == 2


def test_an_answer_in_chunks_is_put_together(home: Home, serve: Serve) -> None:
    serve(lambda *_: (200, {"jobs": [JOB]}), is_chunked=True)
    client = Client(home)
    assert client.queue() == client.queue() == [JOB]


def test_a_stopped_daemon_is_named_with_the_way_to_let_it_go_on(home: Home, serve: Serve) -> None:
    stopped = subprocess.Popen(["sleep", "600"])
    try:
        stopped.send_signal(signal.SIGSTOP)
        wait_until(lambda: state_of(stopped.pid) == "T")
        home.daemon_lock.write_text(f"{stopped.pid}\n")
        silence = threading.Event()
        serve(lambda *_: silence.wait() and None)
        with pytest.raises(UnreachableError) as caught:
            Client(home, timeout_s=0.05).queue()
        assert f"process {stopped.pid}) is stopped" in caught.value.message
        assert caught.value.hint == f"continue it: kill -CONT {stopped.pid}"
        silence.set()
    finally:
        stopped.kill()
        stopped.wait()


def test_a_daemon_that_hangs_is_named_too(home: Home, serve: Serve) -> None:
    home.daemon_lock.write_text(str(os.getpid()))
    silence = threading.Event()
    serve(lambda *_: silence.wait() and None)
    with pytest.raises(UnreachableError, match=rf"process {os.getpid()}\) did not answer within 0.05 s"):
        Client(home, timeout_s=0.05).queue()
    silence.set()


@pytest.mark.parametrize(("status", "kind"), [(400, InputError), (404, InputError), (409, WeftError), (500, WeftError)])
def test_an_error_of_the_daemon_keeps_its_message_and_hint(
    home: Home, serve: Serve, status: int, kind: type[WeftError]
) -> None:
    serve(lambda *_: (status, {"error": "no such job", "hint": "weft queue"}))
    with pytest.raises(WeftError) as caught:
        Client(home).status("9")
    assert type(caught.value) is kind
    assert (caught.value.message, caught.value.hint) == ("no such job", "weft queue")


def test_an_error_that_is_no_json_is_told_as_it_is(home: Home, serve: Serve) -> None:
    serve(lambda *_: (500, b"Internal Server Error"))
    with pytest.raises(WeftError, match="Internal Server Error"):
        Client(home).status("9")


def test_a_wait_goes_on_until_the_job_has_ended(home: Home, serve: Serve) -> None:
    states = iter(["PENDING", "RUNNING", "SUCCEEDED"])
    serve(lambda *_: (200, {**JOB, "state": next(states)}))
    assert Client(home).wait("1")["state"] == "SUCCEEDED"


def test_a_wait_ends_with_its_time(home: Home, serve: Serve) -> None:
    serve(lambda *_: (200, {**JOB, "state": "RUNNING"}))
    assert Client(home).wait("1", timeout_s=0.01)["state"] == "RUNNING"


def test_an_array_gives_the_ids_of_its_elements(home: Home, serve: Serve) -> None:
    server = serve(lambda *_: (201, {"id": "3", "ids": ["3_1", "3_2"]}))
    assert Client(home).submit(["true"], array="1-2") == ["3_1", "3_2"]
    assert server.asked[0][2]["array"] == "1-2"


def test_a_job_gets_folder_umask_and_environment_but_nothing_of_a_job_around_it(
    home: Home, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WEFT_PAGE", "WEFT_TASK", "WEFT_JOB_ID", "WEFT_ATTEMPT", "WEFT_CHECKPOINTS", "RANK", "MASTER_PORT"):
        monkeypatch.setenv(name, "outer")
    monkeypatch.setenv("PYTHONPATH", f"{INJECT}:mine")
    monkeypatch.setenv("WEFT_HOME", "kept")
    monkeypatch.setenv("LR", "0.1")
    server = serve(submitted)
    before = os.umask(0o027)
    try:
        Client(home).submit("python train.py --note 'two words'")
    finally:
        os.umask(before)
    asked = server.asked[0][2]
    assert asked["command"] == ["python", "train.py", "--note", "two words"]
    assert (asked["cwd"], asked["umask"]) == (os.getcwd(), 0o027)  # noqa: PTH109 - links on the way and all
    env = asked["env"]
    assert (env["PYTHONPATH"], env["LR"], env["WEFT_HOME"]) == ("mine", "0.1", "kept")
    assert not {"WEFT_PAGE", "WEFT_TASK", "WEFT_JOB_ID", "WEFT_ATTEMPT", "WEFT_CHECKPOINTS", "RANK"} & env.keys()


def test_ranks_that_a_script_sets_by_itself_outside_any_job_stay(
    home: Home, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEFT_TASK", raising=False)
    monkeypatch.setenv("RANK", "0")
    server = serve(submitted)
    Client(home).submit(["true"])
    assert server.asked[0][2]["env"]["RANK"] == "0"


def test_sizes_and_times_may_be_text_or_numbers(home: Home, serve: Serve) -> None:
    server = serve(submitted)
    Client(home).submit(["true"], gpu_mem="4G", mem=1024, time="2h", after=["3", "4_1,5"], types="A100,V100")
    asked = server.asked[0][2]
    assert (asked["gpu_mem_bytes"], asked["mem_bytes"], asked["time_s"]) == (4 << 30, 1024, 7200)
    assert (asked["after"], asked["types"]) == (["3", "4_1", "5"], ["A100", "V100"])


def test_what_is_not_said_is_left_to_the_daemon(home: Home, serve: Serve) -> None:
    server = serve(submitted)
    Client(home).submit(["true"])
    assert server.asked[0][2].keys() == {"command", "cwd", "umask", "env", "request_id"}


def test_an_option_nobody_knows_is_refused(home: Home) -> None:
    with pytest.raises(TypeError, match="gpu_memory"):
        Client(home).submit(["true"], gpu_memory="4G")  # type: ignore[call-overload]


@pytest.mark.parametrize("wrong", ["", "x", "1_", "_1", "1_2_3", "-1", "1/../2", "٣", "9" * 30])
def test_an_id_that_cannot_be_one_never_leaves_the_house(home: Home, wrong: str) -> None:
    with pytest.raises(InputError, match="is no job id"):
        Client(home).status(wrong)


def test_lines_of_a_log_come_whole_and_to_the_end_though_it_grows(home: Home, serve: Serve) -> None:
    states = iter(["RUNNING", "RUNNING"])
    serve(lambda *_: (200, {**JOB, "state": next(states, "SUCCEEDED")}))
    log = home.log("1", 0)
    log.parent.mkdir()
    log.write_bytes(b"one\ntw")
    lines = Client(home).logs("1", follow=True)
    assert next(lines) == "one\n"
    with log.open("ab") as more:
        more.write("ö\nlast".encode())
    assert list(lines) == ["twö\n", "last"]


def test_the_client_is_part_of_the_package(home: Home) -> None:
    assert weft.Client is Client


def test_nothing_heavy_is_loaded_with_the_client() -> None:
    heavy = {"numpy", "scipy", "rich", "fastapi", "click", "http", "email", "ssl", "asyncio", "torch", "uuid"}
    program = "import sys, weft; weft.Client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert not heavy & set(loaded)
