"""`ottla serve --cluster URL`: a node whose logs are in a PostgreSQL that all nodes share."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit
from uuid import uuid4

from ottla.broker.endpoints import BETWEEN_NODES, Endpoint
from ottla.broker.settings import BadSetting, Settings

if TYPE_CHECKING:
    from ottla.broker.app import Broker
    from ottla.broker.runtime.node import Node
    from ottla.broker.storage.postgres.asyncpg_database import AsyncpgDatabase

SETTLED_IN_S = 5.0
"""A node says that it is ready once it leads its share, and no later than that."""
DRAINED_S = 20.0
SUPERSEDED = 75
"""The exit code of a node whose id another process has taken."""
_EVERYWHERE = ("", "::", "0.0.0.0")


def check_cluster(settings: Settings, directory: str | None, nodes: int | None, endpoints: Sequence[Endpoint]) -> None:
    """Refuse what a node over a database cannot have.

    Args:
        directory: None for a broker in memory, empty if none is named.
        nodes: what ``--nodes`` says.

    Raises:
        BadSetting: with the option, or with what is wrong with the URL.
    """
    if directory is None or directory:
        option = "--ephemeral" if directory is None else "--data-dir"
        raise BadSetting(f"a node of a cluster keeps everything in the database: leave out {option}")
    if nodes is not None:
        raise BadSetting("with a cluster over a database each node is started by itself: leave out --nodes")
    if not settings.is_given("node.id"):
        raise BadSetting("each node of a cluster needs an id of its own: say --set node.id=1, or OTTLA_NODE_ID=1")
    if any(one.name == BETWEEN_NODES for one in endpoints):
        raise BadSetting(f"the listener between the nodes is called {BETWEEN_NODES}: give yours another name")
    database_of(settings)


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


def has_password(url: str) -> bool:
    """Whether a URL, which is one, has a password in it."""
    return bool(urlsplit(url).password)


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
        parts: what a broker is made of to be this node, as arguments of `ottla.broker.app.Broker`.
    """

    def __init__(self, node: Node, password: str) -> None:
        self._node = node
        self.parts: dict[str, Any] = {"engine": node.engine, "placement": node.placement, "node_password": password}

    @classmethod
    async def join(cls, settings: Settings, log: Any) -> Self:
        """Become a node: known to the others, and leading nothing yet.

        Raises:
            CannotStart: the database cannot be reached or used, or the node runs already.
        """
        from ottla.broker.app import CannotStart
        from ottla.broker.clock import LeaseClock
        from ottla.broker.engine import EngineError
        from ottla.broker.runtime.node import Node

        database = database_of(settings)
        try:
            await database.open()
            clock = LeaseClock(asyncio.get_running_loop())
            node = Node(settings.node_id, database.cluster_id, database.connect, clock, log)
            database.on_notified = node.nudge
            node.on_superseded = lambda: os._exit(SUPERSEDED)  # what it leads is another process's
            await node.join()
        except EngineError as error:
            raise CannotStart(f"the cluster cannot be joined: {error}") from error
        log.info("Joined the cluster", database=repr(database.address), incarnation=node.incarnation)
        return cls(node, database.node_password)

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
