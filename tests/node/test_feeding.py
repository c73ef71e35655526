"""Input for a job, and a terminal, through the socket of its shepherd."""

from __future__ import annotations

import hashlib
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodes import Node

from waiting import wait_until

SIZE = {"rows": 30, "cols": 100}


@contextmanager
def attached(node: Node) -> Iterator[socket.socket]:
    path = node.run / "1.1.0.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        wait_until(lambda: _connects(client, path), "the shepherd listens")
        yield client


def _connects(client: socket.socket, path: Path) -> bool:
    return path.exists() and client.connect_ex(str(path)) == 0


def test_input_reaches_the_job_until_its_end_is_said(node: Node) -> None:
    node.daemon.send(node.run_order("sh", "-c", "cat; echo over", stdin=True))
    with attached(node) as client:
        client.send(b"ione\n")
        wait_until(lambda: node.output() == "one\n", "the first line arrives")
        client.send(b"itwo\n")
        client.send(b"e")
        assert node.daemon.end()["exit_code"] == 0
    assert node.output() == "one\ntwo\nover\n"
    assert not (node.run / "1.1.0.sock").exists()


def test_a_client_that_goes_away_ends_the_input(node: Node) -> None:
    node.daemon.send(node.run_order("cat", stdin=True))
    with attached(node) as client:
        client.send(b"iall of it")
    assert node.daemon.end()["exit_code"] == 0
    assert node.output() == "all of it"


def test_a_job_that_reads_slowly_gets_everything(node: Node) -> None:
    pieces = [bytes([ord("a") + number]) * 60_000 for number in range(20)]
    code = "import sys, hashlib, time; time.sleep(0.2); print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    node.daemon.send(node.run_order(sys.executable, "-c", code, stdin=True))
    with attached(node) as client:
        for piece in pieces:
            client.sendall(b"i" + piece)
        client.send(b"e")
        assert node.daemon.end()["exit_code"] == 0
    assert node.output() == hashlib.sha256(b"".join(pieces)).hexdigest() + "\n"


def test_a_job_that_reads_nothing_ends_all_the_same(node: Node) -> None:
    over = node.folder / "over"
    node.daemon.send(
        node.run_order("sh", "-c", f"exec < /dev/null; while [ ! -e {over} ]; do sleep 0.01; done", stdin=True)
    )
    with attached(node) as client:
        client.send(b"i" + b"x" * 60_000)
        client.send(b"imore")
        over.touch()
        assert node.daemon.end()["exit_code"] == 0


def test_without_input_a_job_reads_nothing(node: Node) -> None:
    node.daemon.send(node.run_order("sh", "-c", "cat; echo over"))
    assert node.daemon.end()["exit_code"] == 0
    assert node.output() == "over\n"


def test_a_job_has_a_terminal_with_its_keys_its_size_and_its_signals(node: Node) -> None:
    script = (
        "tty -s && echo terminal; trap 'stty size; exit 5' INT; trap 'stty size' WINCH; stty size; "
        "read x; echo got $x; while :; do sleep 0.01; done"
    )
    node.daemon.send(node.run_order("sh", "-c", script, stdin=True, tty=SIZE))
    with attached(node) as client:
        wait_until(lambda: node.output() == "terminal\r\n30 100\r\n", "it knows its terminal")
        client.send(b"iline\r")
        wait_until(lambda: "got line" in node.output(), "it reads a line")
        client.send(b"w" + struct.pack("=HH", 40, 120))
        wait_until(lambda: "40 120" in node.output(), "it is told of the new size")
    with attached(node) as client:  # a terminal outlives who looks at it
        client.send(b"i\x03")
        assert node.daemon.end()["exit_code"] == 5
    assert node.output().endswith("40 120\r\n")


def test_the_end_of_input_at_a_terminal_is_a_key(node: Node) -> None:
    node.daemon.send(node.run_order("sh", "-c", "cat > /dev/null; seq 2000", stdin=True, tty=SIZE))
    with attached(node) as client:
        client.send(b"e")
        assert node.daemon.end()["exit_code"] == 0
    assert node.output().splitlines()[-2000:] == [str(number) for number in range(1, 2001)]


def test_a_terminal_outlives_its_shepherd(node: Node) -> None:
    over = node.folder / "over"
    script = f"trap 'echo hung up' HUP; echo begun; while [ ! -e {over} ]; do sleep 0.01; done; seq 5000; exit 4"
    node.daemon.send(node.run_order("sh", "-c", script, stdin=True, tty=SIZE))
    node.daemon.next("started")
    wait_until(lambda: node.output() == "begun\r\n", "it runs")
    node.kill_shepherd()
    over.touch()
    assert node.daemon.end()["exit_code"] == 4
    wait_until(lambda: node.output().endswith("5000\r\n"), "all output is there")
    assert "hung up" not in node.output()


def test_several_clients_give_input_and_the_last_to_go_ends_it(node: Node) -> None:
    node.daemon.send(node.run_order("sh", "-c", "cat; echo over", stdin=True))
    with attached(node) as first:
        with attached(node) as second:
            first.send(b"ione\n")
            wait_until(lambda: node.output() == "one\n", "the input of the first arrives")
            second.send(b"itwo\n")
            wait_until(lambda: node.output() == "one\ntwo\n", "and that of the second")
        first.send(b"ithree\n")
        wait_until(lambda: node.output().endswith("three\n"), "the input goes on")
    assert node.daemon.end()["exit_code"] == 0
    assert node.output() == "one\ntwo\nthree\nover\n"
