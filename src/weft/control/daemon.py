"""`python -m weft.control.daemon`: the control plane of one weft. `weft up` puts it in the background."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import uvicorn

from weft.control.app import make_app
from weft.control.care import Care
from weft.control.clock import Clock
from weft.control.desk import Desk
from weft.control.house import PATIENCE_S, House
from weft.control.link import Link
from weft.control.opening import folded, open_log
from weft.control.peers import OwnConnections
from weft.control.store import Store
from weft.control.supervision import Supervision
from weft.control.writer import Writer
from weft.core.errors import InputError, WeftError
from weft.home import Home
from weft.identity import forget_run_folder
from weft.node.devices import discover, load_nvml
from weft.node.regular import clear_place, is_socket
from weft.node.sole import taken_lock
from weft.settings import Settings, load_settings
from weft.sim.named import NamedPolicy, policies_asked

BACKLOG = 512
LOOK_EVERY_S = 2.0

log = logging.getLogger(__name__)


async def serve(
    home: Home, settings: Settings, filed: Settings, named: NamedPolicy, store: Store, has_node: bool
) -> None:
    """Until somebody asks to leave. Jobs that run are left as they are. `filed` is what weft.toml alone says."""
    clock = Clock(store.last_mark())
    graces = {"stop_grace_s": settings.stop_grace_s, "pause_grace_s": settings.pause_grace_s}
    link = Link(store.environment, graces, strict_memory=settings.strict_memory)

    def load() -> Desk:
        return folded(home, store, house.new_policy() if house else named.build(), settings.quotas)

    house: House | None = None
    writer = Writer(store, clock, load, link.send, settings.log_days, settings.snapshot_rows)
    link.join(writer)
    house = House(home, store, writer, link, named, filed, settings.stop_grace_s + PATIENCE_S)
    care = house.care = Care(home, store, settings.backup_every_s)
    supervision = Supervision(home, link, settings.devices, settings.silent_s) if has_node else None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, house.leaving.set)
    nodes = await link.listen(home.node_socket)
    server = uvicorn.Server(
        uvicorn.Config(
            make_app(house),
            http=OwnConnections,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
        )
    )
    server.capture_signals = _as_they_are  # type: ignore[method-assign, assignment]
    listening = _listen(home.socket)
    tasks = [
        asyncio.create_task(writer.run(), name="writer"),
        *([asyncio.create_task(supervision.run(), name="supervision")] if supervision else []),
        asyncio.create_task(server.serve([listening]), name="rest"),
        asyncio.create_task(care.run(), name="care of the log"),
        asyncio.create_task(_keep_reachable(home, server, link), name="sockets"),
        asyncio.create_task(house.leaving.wait(), name="leaving"),
    ]
    log.info("pid %d, %s, policy %s", os.getpid(), home.root, named.label)
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    failed = [task for task in done if task.get_name() != "leaving"]
    for task in failed:
        log.error("%s has ended", task.get_name(), exc_info=task.exception())
    server.should_exit = True
    if supervision:
        await supervision.leave()
    nodes.close()
    for task in tasks:
        if task.get_name() != "rest":
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    home.socket.unlink(missing_ok=True)
    home.node_socket.unlink(missing_ok=True)
    forget_run_folder(home.run)
    for task in failed:
        task.result()  # what made it end is raised here


async def _keep_reachable(home: Home, server: uvicorn.Server, link: Link) -> None:
    """Listen anew where somebody has removed our sockets: a log-out may empty the folders in memory (RemoveIPC)."""
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        if not is_socket(home.socket) or not is_socket(home.node_socket):
            log.warning("the sockets in %s are gone; listening anew", home.run)
            home.make()
            server.servers.append(await _serve_also(server, _listen(home.socket)))
            await link.listen(home.node_socket)


async def _serve_also(server: uvicorn.Server, listening: socket.socket) -> asyncio.Server:
    def connection() -> OwnConnections:
        return OwnConnections(config=server.config, server_state=server.server_state, app_state={})

    return await asyncio.get_running_loop().create_server(connection, sock=listening)


def chosen_policy(store: Store, settings: Settings, filed: Settings) -> NamedPolicy:
    """A policy that was changed while weft ran stays until a flag, a variable or a new weft.toml says otherwise."""
    changed = store.setting("policy")
    named = None
    if changed and settings.policy == filed.policy == store.setting("policy in weft.toml"):
        try:
            named = policies_asked(changed)[0]
        except InputError as error:  # a file of one's own that is gone
            log.warning("the policy %s is not there any more: %s", changed, error.message)
    named = named or policies_asked(settings.policy)[0]
    store.put_settings([("policy", named.label), ("policy in weft.toml", filed.policy)])
    return named


class _AsTheyAre:
    """Signals are ours: the web server's own handling of them is left out."""

    def __enter__(self) -> None: ...

    def __exit__(self, *exception: object) -> None: ...


def _as_they_are() -> _AsTheyAre:
    return _AsTheyAre()


def _listen(path: Path) -> socket.socket:
    """A socket that is there once somebody listens, its owner's from the first instant on."""
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
    parser.add_argument("--no-node", action="store_true", help="start no coordinator: one will say hello by itself")
    flags = vars(parser.parse_args(arguments))
    has_node = not flags.pop("no_node")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    os.umask(0o077)
    home = Home.find(environ)
    try:
        home.make()
        with taken_lock(home.daemon_lock, "daemon"):
            store = open_log(home)
            try:
                settings, filed = load_settings(home.settings, environ, flags), load_settings(home.settings, {}, {})
                if settings.devices:
                    discover(settings.devices, load_nvml())  # wrong ones are refused here, where somebody reads it
                named = chosen_policy(store, settings, filed)
                os.chdir("/")  # the folder it was started in is nobody's business, and may go
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
