"""The processes of `ottla serve --nodes N`, their directories, and the signals of their supervisor."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Final
from uuid import uuid4

from ottla.broker.clock import Clock, LoopClock
from ottla.broker.engine import Corrupt, EngineError, InUse
from ottla.broker.logger import Logger
from ottla.broker.net.listener import CannotListen
from ottla.broker.runtime.mechanisms import node_password
from ottla.broker.settings import BadSetting, Settings
from ottla.broker.storage.cluster_id import new_cluster_id
from ottla.broker.storage.local.directory import make_data_directory, read_meta, take_lock
from ottla.broker.storage.local.files import Files, SyncFailed, replace_file
from ottla.broker.storage.local.layout import Layout, encode_meta
from ottla.cli.database_node import Supervised
from ottla.cli.node import Ports
from ottla.cli.ready import tell_ready
from ottla.cli.supervise import LOOK_MS, Supervisor
from ottla.cli.taken import is_taken
from ottla.protocol.stored.cluster_file import (
    CLUSTER_NAME,
    NODES_NAME,
    BadClusterFile,
    ClusterFile,
    NodeEntry,
    directory_of,
    encode_cluster,
    read_cluster,
)
from ottla.protocol.stored.files import is_locked

ORPHANS_S: Final = 60
"""Processes of a supervisor that was killed end in order; one that starts waits for them so long."""
PORTS_S: Final = 1
LOOK_S: Final = 0.05
STORE_AGAIN_MS: Final = 1_000


class Lodgings:
    """The directories of nodes, locked for their supervisor.

    Args:
        directory: of the first node, and of what all share; None: nothing here outlives the processes.

    Attributes:
        is_temporary: nothing here outlives the processes.
        shared: the directory of what all share.
        cluster: all nodes, none of which runs.
    """

    def __init__(self, directory: Path | None, node_ids: Sequence[int]) -> None:
        self.is_temporary = directory is None
        self.shared = Path(tempfile.mkdtemp(prefix="ottla-")) if directory is None else directory.absolute()
        self._files = Files()
        self._lock: int | None = None
        self._node_ids = node_ids
        self.cluster: ClusterFile

    async def open(self, log: Logger) -> None:
        """Make and lock them.

        Raises:
            EngineError: one belongs to somebody else, or is in use.
            OSError, SyncFailed: one cannot be made.
        """
        below = Layout(str(self.shared / NODES_NAME))
        make_data_directory(self._files, Layout(str(self.shared)))
        make_data_directory(self._files, below)
        self._lock = take_lock(self._files, below)
        node_password(self.shared)  # made before there are several who would make it
        await self._wait_for_orphans(log)
        first_id = self._node_ids[0]
        cluster_id = new_cluster_id(uuid4) if self.is_temporary else self._named(first_id, ".")
        entries = {one: NodeEntry(node_id=one, directory=directory_of(one, first_id)) for one in self._node_ids}
        for node in list(entries.values())[1:] if not self.is_temporary else ():
            if self._named(node.node_id, node.directory, cluster_id) != cluster_id:
                raise Corrupt(f"{self.shared / node.directory} is of another cluster than {self.shared}")
        self.cluster = ClusterFile(cluster_id=cluster_id, supervisor_pid=os.getpid(), nodes=entries)

    async def _wait_for_orphans(self, log: Logger) -> None:
        with suppress(BadClusterFile):
            before = read_cluster(self.shared)
            nodes = [node for node in before.nodes.values() if node.pid] if before is not None else []
            end = asyncio.get_running_loop().time() + ORPHANS_S
            if any(is_locked(self.shared / node.directory) for node in nodes):
                log.info("Waiting for nodes of a supervisor that is gone", pids=[node.pid for node in nodes])
            while any(is_locked(self.shared / node.directory) for node in nodes):
                if asyncio.get_running_loop().time() > end:
                    raise InUse(f"{self.shared} is in use by nodes of a supervisor that is gone: end them")
                await asyncio.sleep(LOOK_S)
        if is_locked(self.shared):
            raise InUse(f"{self.shared} is in use by another process; stop it or choose another data directory")

    def _named(self, node_id: int, directory: str, cluster_id: str = "") -> str:
        """The cluster id of a directory; a new one is given this one, or one of its own."""
        layout = Layout(str(self.shared / directory))
        make_data_directory(self._files, layout)
        if cluster_id and not os.path.exists(layout.meta):
            replace_file(self._files, layout.meta, encode_meta(cluster_id, node_id))
        return read_meta(self._files, layout, node_id, uuid4)[0]

    def store(self, cluster: ClusterFile) -> None:
        """Tell all nodes who is up. Raises OSError and SyncFailed."""
        replace_file(self._files, str(self.shared / CLUSTER_NAME), encode_cluster(cluster))

    def close(self) -> None:
        """Let go of them."""
        if self._lock is not None:
            self._files.close(self._lock)
        if self.is_temporary:
            shutil.rmtree(self.shared, ignore_errors=True)


class NodeProcesses:
    """A process for each node, of the same command.

    Args:
        command: gives the command line of a node.
        call: has something done on the event loop, from whatever thread.

    Attributes:
        reported, ended: see `Supervisor`.
    """

    def __init__(self, command: Callable[[int], Sequence[str]], call: Callable[..., object]) -> None:
        self._command = command
        self._call = call
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self.reported: Callable[[int, dict[str, Any]], None]
        self.ended: Callable[[int, int], None]

    def start(self, node_id: int) -> int:
        # In a session of its own: signals of the terminal are for the supervisor, which ends nodes in order.
        process = subprocess.Popen(
            self._command(node_id), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._running[node_id] = process
        Thread(target=self._follow, args=(node_id, process), daemon=True, name=f"ottla-node-{node_id}").start()
        return process.pid

    def terminate(self, node_id: int) -> None:
        self._running[node_id].terminate()

    def kill(self, node_id: int) -> None:
        self._running[node_id].kill()

    def _follow(self, node_id: int, process: subprocess.Popen[bytes]) -> None:
        """In a thread: hear what a process tells until it ends."""
        assert process.stdout is not None and process.stdin is not None
        for line in process.stdout:
            with suppress(ValueError):  # what a library prints is no report
                if isinstance(report := json.loads(line), dict):
                    self._call(self.reported, node_id, report)
        code = process.wait()
        process.stdout.close()
        process.stdin.close()
        self._call(self.ended, node_id, code)


class _Store:
    """Writes the document down, and again where that fails: the nodes go on with what they know."""

    def __init__(self, lodgings: Lodgings, clock: Clock, log: Logger) -> None:
        self._lodgings = lodgings
        self._clock = clock
        self._log = log
        self._waits = False
        self._latest: ClusterFile

    def __call__(self, cluster: ClusterFile) -> None:
        self._latest = cluster
        if not self._waits:
            self._try()

    def _try(self) -> None:
        self._waits = False
        try:
            self._lodgings.store(self._latest)
        except (OSError, SyncFailed) as error:
            self._log.error("Nodes cannot be told who is up; it is tried again", file=CLUSTER_NAME, reason=str(error))
            self._waits = True
            self._clock.call_at(self._clock.monotonic_ms() + STORE_AGAIN_MS, self._try)


async def run_nodes(
    words: Sequence[str],
    ports: Ports,
    settings: Settings,
    directory: Path | None,
    name: str,
    ready: Path | None,
    check: Callable[[], object],
    log: Logger,
) -> int:
    """Run nodes until a signal comes; gives the exit code.

    Args:
        words: of the command line of all.
        ports: of as many nodes as there are to be.
        directory: see `Lodgings`.
        name: by which nodes of a database get their ids; see `Supervised.open`.
        ready, check: see `_supervise`.
    """
    node_ids: Sequence[int] = range(settings.node_id, settings.node_id + ports.nodes)
    others = None
    if settings.ottla_cluster_url:
        try:
            others = await Supervised.open(settings, name, ports.nodes)
        except EngineError as error:
            log.error("Cannot start", reason=f"the cluster cannot be joined: {error}")
            return 1
        node_ids = others.node_ids
    command, lodgings = partial(node_command, words, node_ids), Lodgings(directory, node_ids)
    return await _supervise(command, lodgings, log, ports=ports, ready=ready, check=check, others=others)


async def _supervise(
    command: Callable[[int, Path], Sequence[str]],
    lodgings: Lodgings,
    log: Logger,
    *,
    ports: Ports,
    ready: Path | None,
    check: Callable[[], object],
    others: Supervised | None,
) -> int:
    """Run nodes until a signal comes; gives the exit code.

    Args:
        command: gives the command line of a node, from its id and the directory of all.
        ports: of all nodes. If one is taken, no node starts.
        ready: a file that says where the nodes are, once they are ready.
        check: raises BadSetting if the settings, as they are now, let no node start.
        others: how the nodes of other machines are told, where they share a database.
    """
    loop = asyncio.get_running_loop()
    clock, over, code = LoopClock(loop), asyncio.Event(), 0
    if not await _open(lodgings, ports, log):
        return 1
    processes = NodeProcesses(lambda node_id: command(node_id, lodgings.shared), loop.call_soon_threadsafe)

    def tell(addresses: list[str]) -> None:
        nonlocal code
        if addresses:
            tell_ready(",".join(addresses), ready, log)
        else:
            log.error("No node starts")
            code = 1
            supervisor.stop()

    def look() -> None:
        clock.call_at(clock.monotonic_ms() + LOOK_MS, look)
        supervisor.look()

    store = _Store(lodgings, clock, log)
    supervisor = Supervisor(
        lodgings.cluster,
        processes,
        clock,
        log,
        store=store,
        on_ready=tell,
        on_stopped=over.set,
        is_ephemeral=lodgings.is_temporary and others is None,
    )

    def ended(node_id: int, code: int) -> None:
        if others is not None and code != 0:
            others.tell_ended(node_id, supervisor.cluster.nodes[node_id].epoch)
        supervisor.ended(node_id, code)

    processes.reported, processes.ended = supervisor.reported, ended
    had_terminal = _has_terminal()
    _heed_signals(loop, supervisor.stop, lambda: _restart(supervisor, check, log, had_terminal=had_terminal))
    supervisor.start()
    look()
    await over.wait()
    store(supervisor.ended_in_order())
    if ready is not None:
        await asyncio.to_thread(ready.unlink, missing_ok=True)
    lodgings.close()
    return code


async def _restart(supervisor: Supervisor, check: Callable[[], object], log: Logger, *, had_terminal: bool) -> None:
    """Restart all nodes if the settings, as they are now, let them start."""
    if had_terminal and not _has_terminal():
        supervisor.stop()  # it was closed
        return
    try:
        await asyncio.to_thread(check)  # it reads files, and may ask an issuer of tokens
    except (BadSetting, OSError) as error:
        log.error("The settings are refused: no node is restarted", reason=str(error))
    else:
        supervisor.restart_all()


def _heed_signals(
    loop: asyncio.AbstractEventLoop, stop: Callable[[], None], restart: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    restarts: set[asyncio.Task[None]] = set()
    loop.add_signal_handler(signal.SIGHUP, lambda: restarts.add(loop.create_task(restart())))


async def _open(lodgings: Lodgings, ports: Ports, log: Logger) -> bool:
    """Open the directories, and see that nobody has a port: later a node tries until somebody lets go of it."""
    try:
        await lodgings.open(log)
        await _wait_for(ports)
    except (EngineError, OSError, SyncFailed, CannotListen) as error:
        log.error("Cannot start", reason=str(error))
        if is_taken(error):
            ports.tell_taken()
        lodgings.close()
        return False
    return True


async def _wait_for(ports: Ports) -> None:
    """Nodes of a supervisor that is gone let go of HTTP a moment later than of their directories."""
    end = asyncio.get_running_loop().time() + PORTS_S
    while asyncio.get_running_loop().time() < end:
        with suppress(CannotListen):
            ports.check_free()
            return
        await asyncio.sleep(LOOK_S)
    ports.check_free()


def _has_terminal() -> bool:
    """Whether somebody's terminal can still be reached; when it is closed, SIGHUP is its farewell."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def node_command(words: Sequence[str], node_ids: Sequence[int], node_id: int, shared: Path) -> list[str]:
    """The command line of a node: that of its supervisor, and who it is among all."""
    place = node_ids.index(node_id)
    own = ["--node", str(node_id), "--place", str(place), "--shared-dir", str(shared)]
    return [sys.executable, "-m", "ottla.cli", *words, *own]
