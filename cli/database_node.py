"""`ottla serve --cluster URL`: a node whose logs are in a PostgreSQL that all nodes share."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from ottla.broker.endpoints import BETWEEN_NODES, Endpoint
from ottla.broker.settings import BadSetting, Settings
from ottla.cli.doubts import tell
from ottla.cli.node import check_ports
from ottla.cli.supervise import SUPERSEDED

if TYPE_CHECKING:
    from ottla.broker.app import Broker
    from ottla.broker.runtime.node import Node
    from ottla.broker.storage.postgres.asyncpg_database import Address, AsyncpgDatabase
    from ottla.cli.cluster_checks import Way

SETTLED_IN_S = 5.0
"""A node says that it is ready once it leads its share, and no later than that."""
DRAINED_S = 20.0
MOST_BYTES = 64 << 20
"""A statement is sent within a lease, and the database takes it as a whole."""
_EVERYWHERE = ("", "::", "0.0.0.0")


def check_cluster(settings: Settings, directory: str | None, nodes: int | None, endpoints: Sequence[Endpoint]) -> None:
    """Refuse what a node over a database cannot have.

    Args:
        directory: None for a broker in memory, empty if none is named.
        nodes: what ``--nodes`` says.

    Raises:
        BadSetting: with the option or the ports, or with what is wrong with the URL.
    """
    if directory is None or directory:
        option = "--ephemeral" if directory is None else "--data-dir"
        raise BadSetting(f"a node of a cluster keeps everything in the database: leave out {option}")
    check_sizes(settings)
    if nodes is not None:
        check_ports(endpoints, settings.ottla_http_listen, nodes)
    if any(one.name == BETWEEN_NODES for one in endpoints):
        raise BadSetting(f"the listener between the nodes is called {BETWEEN_NODES}: give yours another name")
    database_of(settings)


def check_sizes(settings: Settings) -> None:
    """Refuse record batches that a database cannot take. Raises BadSetting."""
    if settings.message_max_bytes > MOST_BYTES:
        raise BadSetting(
            f"message.max.bytes={settings.message_max_bytes}: a cluster over a database takes {MOST_BYTES} at most"
        )


def way_of(address: Address, settings: Settings) -> Way:
    """How a server is reached, as far as it matters whether it can be relied upon."""
    from ottla.cli.cluster_checks import Way

    sslmode = address.sslmode or os.environ.get("PGSSLMODE", "")
    elsewhere = not sslmode and address.has_service
    allows = settings.ottla_cluster_allow_lossy_failover
    return Way(len(address.hosts), None if elsewhere else sslmode, time.time(), allows)


def name_of(settings: Settings, first: Endpoint) -> str:
    """The name by which a node gets its id from the database; empty if it was given one.

    Args:
        first: the listener of which clients are told first.

    Raises:
        BadSetting: it has neither an id nor a name, and would have another one each time.
    """
    if settings.is_given("node.id"):
        return ""
    if settings.ottla_node_name:
        return settings.ottla_node_name
    host, port = first.told or (first.host, first.port)
    if not port:
        raise BadSetting(
            "a node of a cluster needs a port, an id or a name: say --listen, --node-id or ottla.node.name"
        )
    # Each machine has a loopback of its own.
    return f"{host if first.is_for_others and host not in _EVERYWHERE else socket.getfqdn()}:{port}"


def database_of(settings: Settings, cluster_id: str = "") -> AsyncpgDatabase:
    """The database of a cluster as the settings have it; nothing is connected yet.

    Args:
        cluster_id: of a cluster that is new with this, if it is to have a certain one.

    Raises:
        BadSetting: asyncpg is not installed, or the settings name no database.
    """
    try:
        from ottla.broker.storage.postgres.asyncpg_database import AsyncpgDatabase, Unsuitable
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise BadSetting("a cluster over PostgreSQL needs asyncpg: pip install 'ottla[cluster]'") from None
    from ottla.broker.storage.cluster_id import new_cluster_id

    try:
        return AsyncpgDatabase(
            settings.ottla_cluster_url,
            settings.node_id,
            schema=settings.ottla_cluster_schema,
            new_cluster_id=lambda: cluster_id or new_cluster_id(uuid4),
        )
    except Unsuitable as error:
        raise BadSetting(str(error)) from None


def told_of_machine(endpoints: Sequence[Endpoint], log: Any) -> list[Endpoint]:
    """Endpoints that tell clients of other nodes where this machine is, where they listen at all of its addresses."""
    found = []
    for one in endpoints:
        if one.host in _EVERYWHERE and one.port and one.told is None:
            host = socket.getfqdn()
            log.info("Clients are told the name of this machine; --advertise HOST:PORT tells another", host=host)
            one = one._replace(advertised=(host, one.port))
        found.append(one)
    return found


class DatabaseNode:
    """A node among those that share a database. Made by `join`.

    Attributes:
        settings: those that were given, with the id of the node.
        parts: what a broker is made of to be this node, as arguments of `ottla.broker.app.Broker`.
    """

    def __init__(self, node: Node, settings: Settings, password: str) -> None:
        self._node = node
        self.settings = replace(settings, node_id=node.node_id)
        self.parts: dict[str, Any] = {"engine": node.engine, "placement": node.placement, "node_password": password}

    @classmethod
    async def join(cls, settings: Settings, name: str, endpoints: Sequence[Endpoint], log: Any) -> Self:
        """Become a node: known to the others, and leading nothing yet.

        Args:
            name: by which it gets its id; empty if the settings have that.
            endpoints: where it is going to listen.

        Raises:
            CannotStart: the database cannot be reached or used, or the node runs already.
        """
        from importlib.metadata import version

        from ottla.broker.app import CannotStart
        from ottla.broker.clock import LeaseClock
        from ottla.broker.engine import EngineError
        from ottla.broker.runtime.node import Node
        from ottla.cli.cluster_checks import findings_of

        database = database_of(settings)
        try:
            told = [one.told or (one.host, one.port) for one in endpoints]
            tell(
                findings_of(await database.facts(), way_of(database.address, settings), name or settings.node_id, told),
                log,
            )
            await database.open()
            if name:
                database.node_id = await database.identify(name)
                log.info("The id of this node is that of its name", name=name, node_id=database.node_id)
            clock = LeaseClock(asyncio.get_running_loop())
            node = Node(database.node_id, database.cluster_id, database.connect, clock, log, version=version("ottla"))
            database.on_notified = node.nudge
            node.on_superseded = lambda: os._exit(SUPERSEDED)  # what it leads is another process's
            await node.join()
        except (EngineError, BadSetting) as error:
            raise CannotStart(f"the cluster cannot be joined: {error}") from error
        log.info("Joined the cluster", database=repr(database.address), incarnation=node.incarnation)
        return cls(node, settings, database.node_password)

    @property
    def incarnation(self) -> int:
        """Which life of the node this is."""
        return self._node.incarnation

    @property
    def up(self) -> list[int]:
        """The nodes that are up as it knows, and where; itself among them once it has begun."""
        return [node.node_id for node in self._node.placement.view.up if node.endpoints]

    async def begin(self, broker: Broker) -> None:
        """Lead from now on: the broker listens. Returns once it leads its share."""
        endpoints = {one.name: one.told or (one.host or socket.getfqdn(), one.port) for one in broker.endpoints}
        door = broker.between_nodes
        if door is not None:
            host, _ = next(iter(endpoints.values()))
            endpoints[BETWEEN_NODES] = host, door.port
        await self._node.announce(endpoints)
        await self._node.settle_in(SETTLED_IN_S)

    async def end(self) -> None:
        """Let others lead what this node leads."""
        await self._node.drain(DRAINED_S)


class Supervised:
    """The nodes of a supervisor, in the database that they share with those of others. Made by `open`.

    Attributes:
        node_ids: theirs.
    """

    def __init__(self, database: AsyncpgDatabase, node_ids: Sequence[int]) -> None:
        self.node_ids = node_ids
        self._database = database

    @classmethod
    async def open(cls, settings: Settings, name: str, count: int) -> Self:
        """Learn the ids of so many nodes.

        Args:
            name: see `name_of`; with #1, #2 and so on it is the name of each.

        Raises:
            EngineError: the database cannot be reached or used.
        """
        database = database_of(settings)
        await database.open()
        if not name:
            return cls(database, range(settings.node_id, settings.node_id + count))
        return cls(database, [await database.identify(f"{name}#{number + 1}") for number in range(count)])

    def tell_ended(self, node_id: int, epoch: int) -> None:
        """Let all nodes know that one has ended, in this incarnation."""
        from ottla.broker.storage.postgres.database import Describe, Session

        def tell(session: Session | None) -> None:
            if session is not None:
                session.send(Describe(node_id, ended=epoch), lambda answer: session.abort())

        self._database.connect("M", tell)
