"""`python -m weft.control.daemon`: the control plane of one weft. `weft up` puts it in the background."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import uvicorn

from weft.control.api.app import make_app
from weft.control.api.connections import Connections, RestConnection, most_connections
from weft.control.api.listener import Listener
from weft.control.clock import Clock
from weft.control.coordinator_session import CoordinatorProcess, CoordinatorSession
from weft.control.loop.control_state import ControlState
from weft.control.loop.writer import Writer
from weft.control.service import PATIENCE_S, ControlService
from weft.control.store.home_log import LogUpkeep, folded, open_log
from weft.control.store.log_store import LogStore
from weft.core.errors import InputError, WeftError
from weft.node.devices.discovery import discover
from weft.node.devices.nvml import load_nvml
from weft.node.fence.cgroups import find_fences
from weft.policies.loader import NamedPolicy, policies_asked
from weft.system import descriptors
from weft.system.files import clear_place, is_socket
from weft.system.home import Home
from weft.system.lockfile import holder_of, taken_lock
from weft.system.process_log import configure_log
from weft.system.runtime_dir import forget_run_folder
from weft.system.settings import Settings, load_settings
from weft.system.supervisor import Supervisor

BACKLOG = 512
SWITCH_S = 0.001
"""How long a thread computes before another may: requests do not wait for a decision."""

log = logging.getLogger(__name__)


async def serve(
    home: Home, settings: Settings, filed: Settings, named: NamedPolicy, store: LogStore, has_node: bool
) -> None:
    """Run until asked to stop. Running jobs are left as they are. `filed` is what weft.toml alone says."""
    clock = Clock(store.last_mark())
    graces = {"stop_grace_s": settings.stop_grace_s, "pause_grace_s": settings.pause_grace_s}
    session = CoordinatorSession(
        store.environment,
        graces,
        strict_memory=settings.strict_memory,
        is_coordinator=lambda pid: holder_of(home.node_lock) in (None, 0, pid),
    )

    def load() -> ControlState:
        policy = service.new_policy() if service else named.build()
        return folded(home, store, policy, settings.quotas, settings.startup_s)

    service: ControlService | None = None
    writer = Writer(store, clock, load, session.send, settings.log_days, settings.snapshot_rows)
    session.join(writer)
    service = ControlService(home, store, writer, session.link, named, filed, settings.stop_grace_s + PATIENCE_S)
    care = LogUpkeep(home, store, settings.backup_every_s)
    supervision = (
        CoordinatorProcess(home, session, settings.devices, settings.silent_s, settings.fence) if has_node else None
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, service.leaving.set)
    server = _web_server(service)
    connections = Connections(server, most_connections())
    nodes, clients = (Listener(path, lambda path: _listen_at(home, path)) for path in (home.node_socket, home.socket))
    supervisor = Supervisor()
    service.watched += [
        supervisor.warnings,
        connections.warnings,
        nodes.warnings,
        clients.warnings,
        session.warnings,
    ]
    service.watched.append(care.warnings)
    lasting: dict[str, Callable[[], Awaitable[object]]] = {
        "writer": writer.run,
        "care of the log": care.run,
        "rest": lambda: _answer(server),
        "connections": connections.sweep,
        "node socket": lambda: nodes.run(session.link.admit),
        "rest socket": lambda: clients.run(connections.admit),
    }
    if supervision:
        lasting["supervision"] = supervision.run
    nodes.open()
    clients.open()  # what cannot be bound at the start ends it, with a message
    tasks = {name: supervisor.start(name, work) for name, work in lasting.items()}
    log.info("pid %d, %s, policy %s", os.getpid(), home.root, named.label)
    await service.leaving.wait()
    await _end(tasks, "rest socket", "connections", "rest", *(["supervision"] if supervision else []))
    clients.close()
    leaving = [*([server.shutdown()] if server.started else []), *([supervision.leave()] if supervision else [])]
    for failed in await asyncio.gather(*leaving, return_exceptions=True):
        if failed is not None:
            log.error("leaving", exc_info=failed)
    await _end(tasks, *tasks)
    nodes.close()
    session.link.close()
    service.readers.close()
    home.socket.unlink(missing_ok=True)
    home.node_socket.unlink(missing_ok=True)
    forget_run_folder(home.run)


def _web_server(service: ControlService) -> uvicorn.Server:
    config = uvicorn.Config(
        make_app(service),
        http=RestConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    server.capture_signals = _as_they_are  # type: ignore[method-assign, assignment]
    return server


async def _end(tasks: dict[str, asyncio.Task[None]], *names: str) -> None:
    ending = [tasks.pop(name) for name in names]
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


async def _answer(server: uvicorn.Server) -> None:
    """Connections are accepted in listener.py, so the server has no sockets of its own."""
    server.should_exit = False
    await server.serve([])


def _listen_at(home: Home, path: Path) -> socket.socket:
    home.make()  # its folder may have been removed with the socket
    return _listen(path)


def chosen_policy(store: LogStore, settings: Settings, filed: Settings, *, is_asked: bool) -> NamedPolicy:
    """A policy that was changed while weft ran stays until a flag or a variable (`is_asked`) or a new weft.toml says
    otherwise."""
    changed = store.setting("policy")
    named = None
    if changed and not is_asked and filed.policy == store.setting("policy in weft.toml"):
        try:
            named = policies_asked(changed)[0]
        except InputError as error:  # a file of one's own that is gone
            log.warning("the policy %s is not there any more: %s", changed, error.message)
    named = named or policies_asked(settings.policy)[0]
    store.put_settings([("policy", named.label), ("policy in weft.toml", filed.policy)])
    return named


class _AsTheyAre:
    """The daemon handles signals; the web server's own handling is left out."""

    def __enter__(self) -> None: ...

    def __exit__(self, *exception: object) -> None: ...


def _as_they_are() -> _AsTheyAre:
    return _AsTheyAre()


def _listen(path: Path) -> socket.socket:
    """A socket that exists only once it listens, and is its owner's alone from the start."""
    draft = path.with_suffix(".new")
    clear_place(draft)
    listening = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listening.bind(str(draft))
    finally:
        os.umask(before)
    listening.listen(BACKLOG)
    listening.setblocking(False)
    if not is_socket(path) and (aside := clear_place(path)):
        log.warning("something else than a socket was at %s; it is %s now", path, aside.name)
    draft.replace(path)
    return listening


def main(arguments: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    parser = argparse.ArgumentParser(prog="weft.control.daemon")
    parser.add_argument("--policy")
    parser.add_argument("--devices")
    parser.add_argument("--log-level", help="before WEFT_LOG: debug, info, warning or error")
    parser.add_argument("--no-node", action="store_true", help="start no coordinator: one will say hello by itself")
    flags = vars(parser.parse_args(arguments))
    has_node, log_level = not flags.pop("no_node"), flags.pop("log_level")
    os.umask(0o077)
    descriptors.raise_limit()
    home = Home.find(environ)
    try:
        home.make()
        configure_log(home.daemon_log, log_level)
        with taken_lock(home.daemon_lock, "daemon"):
            store = open_log(home)
            try:
                settings, filed = load_settings(home.settings, environ, flags), load_settings(home.settings, {}, {})
                if settings.devices:
                    discover(settings.devices, load_nvml())  # wrong ones are refused here, where the user sees it
                if settings.fence == "cgroup":
                    find_fences(settings.fence, home.root)
                is_asked = bool(flags["policy"] or environ.get("WEFT_POLICY"))
                named = chosen_policy(store, settings, filed, is_asked=is_asked)
                sys.setswitchinterval(SWITCH_S)
                os.chdir("/")  # the folder it was started in may be removed
                asyncio.run(serve(home, settings, filed, named, store, has_node))
            finally:
                store.close()
    except WeftError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
