"""The bench for the contract of the port with a real PostgreSQL on it, which has a synchronous standby.

What is held is a statement of which all but the last five bytes have arrived. Where a simulation lets time pass, this
waits until each statement is answered, or the server says what it is waiting for. Time passes slowly here, so that a
machine that has much else to do comes along.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import asyncpg

from examples.cluster.postgresql import USER, PostgresServer, new_directory
from ottla.broker.cluster.plan import LogRow
from ottla.broker.engine import Unavailable
from ottla.broker.storage.postgres import database as port
from ottla.broker.storage.postgres.asyncpg_database import AsyncpgDatabase
from ottla.broker.storage.postgres.database import Session, Statement
from ottla.broker.storage.postgres.statements import LOCK_TIMEOUT_MS
from tests.storage.simulated_database import Pending
from tests.support.tcp_proxy import Carried, TcpProxy
from tests.support.waiting import until

PATIENCE_S = 60
SLOWER = 5
_numbers = itertools.count(1)


class Pair:
    """A primary and its synchronous standby, each behind a proxy, and a proxy between them."""

    def __init__(self) -> None:
        self.directory = new_directory()
        self.primary = PostgresServer(self.directory / "primary")
        self.standby = PostgresServer(self.directory / "standby")
        self.between = TcpProxy(self.primary.port, is_postgres=False)
        self.is_promoted = False
        self.primary.create()
        self.primary.start()
        self.standby.clone_of(self.primary, self.between.port)
        self.standby.start()
        self.primary.configure({"synchronous_standby_names": "ANY 1 (standby)"})
        self.primary.reload()

    def close(self) -> None:
        for server in (self.primary, self.standby):
            server.stop()
        self.between.close()
        shutil.rmtree(self.directory)


class Pairs:
    """A pair for all tests, and another for those behind one that promotes the standby."""

    def __init__(self) -> None:
        self._pair: Pair | None = None

    def get(self) -> Pair:
        if self._pair is not None and self._pair.is_promoted:
            self.close()
        if self._pair is None:
            self._pair = Pair()
        return self._pair

    def close(self) -> None:
        if self._pair is not None:
            self._pair.close()
            self._pair = None


def database_of(pair: Pair, node: int, ports: Sequence[int] = (), user: str = USER, **options: Any) -> AsyncpgDatabase:
    """The database as a node has it, by the servers' own ports or by those of proxies."""
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports or (pair.primary.port, pair.standby.port))
    options = {"schema": "ottla", "new_cluster_id": lambda: "a cluster"} | options
    return AsyncpgDatabase(f"postgresql://{user}@{hosts}/postgres?sslmode=disable", node, **options)


async def connected(database: AsyncpgDatabase, role: str = "M") -> Any:
    """A session, as soon as there is one."""
    while True:
        told: asyncio.Future[Session | None] = asyncio.get_running_loop().create_future()
        database.connect(role, told.set_result)
        if (session := await told) is not None:
            return session
        await asyncio.sleep(0.02)


async def opened(database: AsyncpgDatabase) -> None:
    """Open it, as soon as its server answers in time: the machine may have much else to do."""
    while True:
        try:
            await database.open()
            return
        except Unavailable:
            await asyncio.sleep(0.02)


class _Client:
    """A session, with what goes through a proxy for it, and what was sent and is not answered."""

    def __init__(self, session: Session, carried: Carried, server: PostgresServer) -> None:
        self.session = session
        self.carried = carried
        self.server = server
        self.pending: Pending | None = None
        self.is_lost = False
        session.on_lost = self._lost

    def _lost(self) -> None:
        self.is_lost = True

    @property
    def waits(self) -> bool:
        return self.pending is not None and self.pending.answer is None and not self.is_lost


class PostgresBench:
    """See the module. Sessions are numbers."""

    def __init__(self, pair: Pair, logs: Sequence[LogRow], document: object) -> None:
        self._pair = pair
        self._loop = asyncio.new_event_loop()
        self._schema = f"ottla_{next(_numbers)}"
        self._proxies = {
            one.port: (one, server) for server in (pair.primary, pair.standby) for one in [TcpProxy(server.port)]
        }
        self._databases: dict[int, AsyncpgDatabase] = {}
        self._clients: dict[int, _Client] = {}
        self._askers: dict[PostgresServer, Any] = {}
        self._is_stalled = False
        self._do(self._streams())
        setup = self.session()
        assert self.start(setup, port.StoreCatalog(1, document, created=logs)).answer is not None
        # As if they had been laid out with the tables.
        self._do(self._ask(pair.primary, f"UPDATE {self._schema}.cluster SET meta_version = 1"))

    def close(self) -> None:
        for client in self._clients.values():
            client.session.abort()
        for asker in self._askers.values():
            asker.terminate()
        for proxy, _ in self._proxies.values():
            proxy.close()
        if not self._pair.is_promoted:
            self._pair.between.stall(False)
        while tasks := asyncio.all_tasks(self._loop):
            self._loop.run_until_complete(asyncio.wait(tasks))
        self._loop.close()

    # What the tests do

    def session(self, role: str = "M", node: int = 1) -> int:
        """A new connection of a node. One with the role ``H`` shows that the node is there."""
        session = self._do(self._connected(role, node))
        # The proxy of the server to which the way led has it as its last.
        carried, server = next(
            (proxy.connections[-1], server)
            for proxy, server in self._proxies.values()
            if proxy.connections
            and proxy.connections[-1].is_open
            and self._do(self._ask(server, "SELECT 1 FROM pg_stat_activity WHERE pid = $1", session.number))
        )
        self._clients[session.number] = _Client(session, carried, server)
        return session.number

    def start(self, session: int, statement: Statement) -> Pending:
        """Send a statement and let it come as far as it does."""
        client = self._clients[session]
        pending = client.pending = Pending()
        self._loop.call_soon(client.session.send, statement, pending.told)
        self._quiet()
        assert not client.is_lost, [database.why for database in self._databases.values()]
        return pending

    def hold(self, session: int, statement: Statement) -> Pending:
        """The same, but its last bytes do not come: it keeps its locks, and is not committed."""
        self._clients[session].carried.is_holding = True
        return self.start(session, statement)

    def release(self, session: int) -> None:
        """The last bytes come."""
        self._clients[session].carried.release()
        self._quiet()

    def drop(self, session: int) -> None:
        """The connection ends."""
        client = self._clients[session]
        client.carried.cut()
        self._until(lambda: client.is_lost)
        self._do(self._gone(client))
        self._quiet()

    def settle(self, how_long_ms: int) -> None:
        """Let time pass."""
        self._do(asyncio.sleep(SLOWER * how_long_ms / 1000))
        self._quiet()

    def stall(self, stalls: bool) -> None:
        """The standby does not answer, or does again."""
        self._is_stalled = stalls
        self._pair.between.stall(stalls)
        if not stalls:
            self._do(self._streams())
        self._quiet()

    def cancel(self, session: int) -> None:
        """Cancel what a session waits for."""
        client = self._clients[session]
        assert self._do(self._ask(client.server, "SELECT pg_cancel_backend($1)", session)) == [(True,)]
        self._until(lambda: not client.waits)
        self._quiet()

    def promote(self) -> None:
        """The standby takes over; the old primary lives on, alone, for those who have a connection to it."""
        self._pair.is_promoted = self._is_stalled = True
        self._pair.between.cut()
        self._pair.standby.promote()

    def crash(self) -> None:
        """The server dies and starts again."""
        clients = [client for client in self._clients.values() if client.server is self._pair.primary]
        self._pair.primary.crash()
        self._until(lambda: all(client.is_lost for client in clients))
        self._pair.primary.start()

    # Steps

    def _do(self, work: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(work, PATIENCE_S))

    def _until(self, condition: Callable[[], bool]) -> None:
        async def is_so() -> bool:
            return condition()

        self._do(until(is_so))

    async def _connected(self, role: str, node: int) -> Session:
        database = self._databases.get(node)
        if database is None:
            database = self._databases[node] = database_of(
                self._pair,
                node,
                tuple(self._proxies),
                schema=self._schema,
                new_cluster_id=lambda: f"cluster of {self._schema}",
                lock_timeout_ms=SLOWER * LOCK_TIMEOUT_MS,
            )
            await opened(database)
        return await connected(database, role)

    def _quiet(self) -> None:
        """Wait until every statement is answered, or waits for what the test does next."""
        self._do(self._all_quiet())

    async def _all_quiet(self) -> None:
        while waiting := [client for client in self._clients.values() if client.waits]:
            await asyncio.sleep(0.003)
            if all([not client.waits or await self._is_quiet(client) for client in waiting]):
                return

    async def _is_quiet(self, client: _Client) -> bool:
        query = (
            "SELECT backend_xid IS NOT NULL, wait_event_type, wait_event, cardinality(pg_blocking_pids(pid))"
            " FROM pg_stat_activity WHERE pid = $1"
        )
        for has_begun, kind, event, blockers in await self._ask(client.server, query, client.session.number):
            is_waiting = (kind == "Lock" and blockers > 0) or (event == "SyncRep" and self._is_stalled)
            return is_waiting or (has_begun and event == "ClientRead" and bool(client.carried.held))
        return False

    async def _gone(self, client: _Client) -> None:
        query = "SELECT 1 FROM pg_stat_activity WHERE pid = $1"

        async def is_so() -> bool:
            return not await self._ask(client.server, query, client.session.number)

        await until(is_so)

    async def _streams(self) -> None:
        """Wait until the standby follows."""
        query = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'"
        await until(lambda: self._ask(self._pair.primary, query))

    async def _ask(self, server: PostgresServer, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        for _ in range(2):
            if server not in self._askers:
                self._askers[server] = await asyncpg.connect(
                    host="127.0.0.1", port=server.port, user=USER, database="postgres", ssl=False, timeout=PATIENCE_S
                )
            try:
                return [tuple(record) for record in await self._askers[server].fetch(query, *arguments)]
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                self._askers.pop(server).terminate()  # it has died since, and may be up again
        raise ConnectionError("the server does not answer")
