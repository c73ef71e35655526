"""A process that has imported torch, and forks: what `weft exec -- python train.py` is, without the start of PyTorch.

    python forkserver.py                 takes requests from its stdin, a Unix socket, until that is closed

Each pytest process has one, started when the first test wants it, under the native library as `weft exec` preloads it
and with nothing of weft in it but that. A fork runs `weft exec`, which forks the command as ever: pid, process group,
page, limits and signals are its own work. Only where it would replace the command's process by a new Python
interpreter (os.execvpe) the fork becomes that interpreter: environment, sys.argv, sys.path, signals and open files as
after an exec, then weft's sitecustomize as it is injected, then the action that its import hook takes when torch has
come, then the script. At the end threads are joined, and atexit's functions are called in the order that they would
have had.

So what a test sees after the import of torch is the same: tests/runtime/test_forkserver.py compares it with real
starts, and tests/runtime/test_scripts.py compares what a script prints in a fork with what it prints started bare.
A test about the start itself (injection, import hooks, preloading, stacks, several scripts in one command) starts for
real.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, NoReturn

REQUEST_BYTES = 1 << 20
FDS = 3  # of a request: stdout, stderr, and where the answer goes


# ---- for the tests


class ForkedProcess:
    """As subprocess.Popen: a `weft exec` that was forked."""

    def __init__(self, answer: BinaryIO) -> None:
        self._answer = answer
        self.pid = int(answer.readline())
        self.returncode: int | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        import cpu_report

        with self._answer:
            code, _, cpu_s = self._answer.readline().partition(b" ")
        cpu_report.forked_s += float(cpu_s or 0)
        self.returncode = int(code)
        self._ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("a forked weft exec", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):  # it has ended, and is about to be said to have
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def weft_exec(words: Sequence[str], env: Mapping[str, str], stdout: BinaryIO, stderr: BinaryIO) -> ForkedProcess:
    """`weft exec` with these words, which end in a command: a Python interpreter with a script or `-c` and its code."""
    reading, writing = os.pipe()
    request = json.dumps({"words": list(words), "env": dict(env), "cwd": str(Path.cwd())}).encode()
    assert len(request) < REQUEST_BYTES
    socket.send_fds(_server(), [request], [stdout.fileno(), stderr.fileno(), writing])
    os.close(writing)
    return ForkedProcess(os.fdopen(reading, "rb"))


@cache
def _server() -> socket.socket:
    from underweft import environment
    from weft.node.exec.command_limits import the_library

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for one in (ours, theirs):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_BYTES)
    library, _ = the_library()
    env = environment() | ({"LD_PRELOAD": library} if library else {})
    process = subprocess.Popen([sys.executable, __file__], stdin=theirs, stdout=subprocess.DEVNULL, env=env)
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# ---- the server

first_of_the_interpreter: list[Callable[[], object]] = []
"""What a sitecustomize registers with atexit comes before what torch registers, and so is called after it."""


def serve() -> None:
    requests = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    while True:
        request, fds, _, _ = socket.recv_fds(requests, REQUEST_BYTES, FDS)
        while _reap():
            pass
        if not request:
            return
        if os.fork() == 0:
            requests.close()
            _wait_for_a_fork(json.loads(request), fds)
        for fd in fds:
            os.close(fd)


def _reap() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _wait_for_a_fork(request: dict[str, Any], fds: list[int]) -> NoReturn:
    """The parent of `weft exec`, as a shell would be: says its pid, and how it ended."""
    stdout, stderr, answer = fds
    pid = os.fork()
    if pid == 0:
        os.close(answer)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.close(stdout)
        os.close(stderr)
        _be_weft_exec(**request)
    for fd in (stdout, stderr):
        os.close(fd)
    os.write(answer, b"%d\n" % pid)
    _, status, usage = os.wait4(pid, 0)
    said = f"{os.waitstatus_to_exitcode(status)} {usage.ru_utime + usage.ru_stime}\n"
    os.write(answer, said.encode())
    os._exit(0)


def _be_weft_exec(words: list[str], env: dict[str, str], cwd: str) -> NoReturn:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    from weft.cli.main import main

    execute = os.execvpe

    def become(name: str, command: list[str], env: Mapping[str, str]) -> None:
        if name != sys.executable:
            execute(name, command, env)
        _be_the_interpreter(command[1:], env)

    os.execvpe = become  # type: ignore[assignment]
    sys.argv = ["weft", "exec", *words]
    os._exit(_code_of(main))


def _be_the_interpreter(arguments: list[str], env: Mapping[str, str]) -> NoReturn:
    """This process, as it would be after an exec of Python with torch imported."""
    for fd in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        try:
            if not os.get_inheritable(fd):
                os.close(fd)
        except OSError:  # the one that listed them
            continue
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(env)
    for name in list(sys.modules):
        if name.partition(".")[0] in ("weft", "click"):
            del sys.modules[name]
    _inject(env["PYTHONPATH"].partition(":")[0])
    code = _code_of(lambda: _run(arguments))
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _inject(folder: str) -> None:
    """Import the sitecustomize that weft puts first on the path. The server has imported the one that it hides."""
    ours, path, register = sys.modules.pop("sitecustomize", None), sys.path, atexit.register
    hidden = [finder for finder in sys.meta_path if type(finder).__module__ == "sitecustomize"]
    sys.path = [folder, *(entry for entry in path if not Path(entry, "sitecustomize.py").exists())]
    atexit.register = lambda function: first_of_the_interpreter.append(function)  # type: ignore[assignment]
    try:
        __import__("sitecustomize")
    finally:
        atexit.register = register
        sys.path = path
        if ours is not None:
            sys.modules["sitecustomize"] = ours
    sys.meta_path[:] = hidden + [finder for finder in sys.meta_path if finder not in hidden]
    for finder in sys.meta_path:
        actions = getattr(finder, "actions", {})
        if "torch" in actions:
            actions.pop("torch")(sys.modules["torch"])


def _run(arguments: list[str]) -> None:
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    if arguments[0] == "-c":
        sys.argv, sys.path[0] = ["-c", *arguments[2:]], ""
        code = compile(arguments[1], "<string>", "exec")
    else:
        script = Path(arguments[0])
        sys.argv, sys.path[0] = arguments, str(script.parent)
        main.__file__ = arguments[0]
        code = compile(script.read_bytes(), arguments[0], "exec")
    main.__dict__["__builtins__"] = __builtins__
    exec(code, main.__dict__)  # noqa: S102 -- the script


def _code_of(run: Callable[[], object]) -> int:
    """The exit code that an interpreter has after this."""
    try:
        run()
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            return left.code or 0
        print(left.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException as error:  # noqa: BLE001 -- it is printed, as an interpreter does at its end
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


if __name__ == "__main__":
    atexit.register(lambda: [function() for function in first_of_the_interpreter])
    import torch  # noqa: F401 -- so that its forks have it

    serve()
