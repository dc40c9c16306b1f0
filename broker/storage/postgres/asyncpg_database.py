"""The port to the database over asyncpg, which nobody else imports: sessions, and how they come to be.

A statement under way is never cancelled, nor has it a time-out here or on the server: a commit that is cancelled while
it waits for its standby *succeeds*, as far as this server goes. Whoever has waited enough lets go of the connection.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from ottla.broker.cluster.membership import Server
from ottla.broker.engine import EngineError, Unavailable
from ottla.broker.storage.postgres import database as port
from ottla.broker.storage.postgres import schema
from ottla.broker.storage.postgres.database import Answer, Refusal, Session, Statement
from ottla.broker.storage.postgres.facts import Facts, ask
from ottla.broker.storage.postgres.statements import LOCK_TIMEOUT_MS, Statements

CONNECT_S: Final = 2.0
"""For each host: TCP, TLS, log-in, and what is asked of the server first."""
MIGRATE_TRIES: Final = 100
MIGRATE_AGAIN_S: Final = 0.1
OLDEST_SERVER: Final = 140_000
BACKOFF_S: Final = 0.25

_SETTINGS: Final = {
    "default_transaction_isolation": "read committed",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "5s",
}
"""What a role or a database may set otherwise, and must not: asked for at the start, and read back."""
_START: Final = _SETTINGS | {
    "jit": "off",
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "5000",
}
_ROLE_START: Final = {
    "M": {"client_connection_check_interval": "1s"},
    "R": {"client_connection_check_interval": "1s", "enable_bitmapscan": "off"},
    "L": {"client_connection_check_interval": "1s", "enable_bitmapscan": "off"},
}
_REFUSALS: Final[dict[str | None, Refusal]] = {refusal.value: refusal for refusal in Refusal}
_NOTHING_DONE: Final = ("25", "42", "53")
"""Classes of errors that the next try would meet as well: read only, no such table or right, no room."""

_FACTS: Final = """
SELECT pg_backend_pid() AS pid, current_setting('server_version_num')::int AS version, pg_is_in_recovery() AS recovers,
  CASE WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply'
       ELSE set_config('synchronous_commit', 'on', false) END AS commits,
  CASE WHEN current_setting('server_version_num')::int >= 170000
       THEN set_config('transaction_timeout', '0', false) END AS transactions"""
_LIFE: Final = """
SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int,
  (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint"""
_TYPES: Final = "SELECT $1::int[], $2::bigint[], $3::bytea[], $4::bool[]"
_PROOF: Final = "SELECT 1 FROM cluster FOR KEY SHARE"

_T = TypeVar("_T")


class Unsuitable(EngineError):
    """This database cannot be used as it is. The message says what has to change."""


class Address:
    """Where a database is, of a URL that may have secrets; what is shown of it has none.

    Raises:
        Unsuitable: it is none, or asks for a server that cannot be written to.
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            asked = {
                name: values[-1] for name, values in parse_qs(parts.query, strict_parsing=bool(parts.query)).items()
            }
        except ValueError:
            parts, asked = urlsplit(""), {}
        if parts.scheme not in ("postgresql", "postgres"):
            raise Unsuitable("the URL of a cluster begins with postgresql://")
        if asked.get("target_session_attrs", "read-write") not in ("read-write", "primary", "any"):
            raise Unsuitable("a cluster needs the server that can be written to: leave out target_session_attrs")
        self.url = url
        self.sslmode = asked.get("sslmode", "")
        """What the URL says of it; empty if nothing."""
        self.has_service = "service" in asked or "PGSERVICE" in os.environ
        """Whether more stands in a file."""
        logged_in, _, places = parts.netloc.rpartition("@")
        user, _, password = logged_in.partition(":")
        self._secrets = [
            one for one in (url, password, unquote(password), asked.get("password"), asked.get("sslpassword")) if one
        ]
        places = places or asked.get("host", "")
        self.shown = f"postgresql://{user and user + '@'}{places}{parts.path}"
        self.hosts: Sequence[dict[str, Any]] = [_host(one, asked.get("port")) for one in places.split(",")]
        """What asyncpg is told of each, apart from the URL; of one that stands elsewhere, nothing."""

    def __repr__(self) -> str:
        return self.shown

    def without_secrets(self, error: BaseException) -> str:
        """What an error says, but for what nobody is to read."""
        said = str(error) or type(error).__name__
        for secret in self._secrets:
            said = said.replace(secret, "***")
        return said


def _host(place: str, port: str | None) -> dict[str, Any]:
    if not place:
        return {}
    if place.startswith(("/", "%2F")):
        return {}
    host, colon, number = place.rpartition(":")
    if not colon or place.endswith("]"):
        host, number = place, port or ""
    if number and not number.isdecimal():
        raise Unsuitable("the URL of a cluster has a port that is no number")
    return {"host": host.strip("[]")} | ({"port": int(number)} if number else {})


class AsyncpgSession:
    """A connection of a node. See `Session`."""

    def __init__(
        self,
        connection: asyncpg.Connection[Any],
        statements: Statements,
        server: Server,
        failed: Callable[[Exception], None],
        aborted: Callable[[], None],
    ) -> None:
        self.on_lost: Callable[[], None] = lambda: None
        self.number = connection.get_server_pid()
        self.server = server
        self._connection = connection
        self._statements = statements
        self._failed = failed
        self._aborted = aborted
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        self._is_poisoned = False
        self._sent: asyncio.Task[None] | None = None
        connection.add_log_listener(self._told)
        connection.add_termination_listener(self._ended)

    def send(self, statement: Statement, answered: Callable[[Answer], None]) -> None:
        if self._is_over:
            return
        assert self._sent is None, "a statement at a time"
        self._sent = self._loop.create_task(self._carry(statement, answered))

    def abort(self) -> None:
        self._is_over = True
        self._aborted()
        self._connection.terminate()

    async def _carry(self, statement: Statement, answered: Callable[[Answer], None]) -> None:
        command = self._statements.of(statement)
        result, refusal = None, None
        try:
            records = await self._connection.fetch(command.text, *command.arguments(statement))
            result = command.result(records)
        except asyncpg.PostgresError as error:
            refusal = _REFUSALS.get(error.sqlstate)
            if refusal is None:
                self._lose(error)
        except Exception as error:
            # A server that dies shows in errors of many kinds; nobody knows what became of the statement.
            self._lose(error)
        self._sent = None
        if not self._is_over:
            answered(Answer(result, refusal, self._is_poisoned))

    def _lose(self, error: Exception) -> None:
        """End after an error, a little later if the next statement would meet it as well."""
        if self._is_over:
            return
        self._is_over = True
        self._failed(error)
        self._connection.terminate()
        state = (error.sqlstate or "") if isinstance(error, asyncpg.PostgresError) else ""
        self._loop.call_later(BACKOFF_S if state.startswith(_NOTHING_DONE) else 0, self._say_lost)

    def _say_lost(self) -> None:
        self.on_lost()

    def _ended(self, connection: object) -> None:
        if not self._is_over:
            self._is_over = True
            self._say_lost()

    def _told(self, connection: object, message: asyncpg.PostgresLogMessage) -> None:
        """The server warns. asyncpg tells it before the answer that comes behind it."""
        if message.severity_en == "WARNING":
            self._is_poisoned = True


class AsyncpgDatabase:
    """The database of a cluster, as one node reaches it. `connect` is a `Connect`.

    A server is taken only if it commits, and one of an earlier timeline, or of an earlier life, is not taken again.

    Args:
        schema: where the tables are.
        new_cluster_id: names the cluster if this node is the first ever.
        lock_timeout_ms: how long a claim and a change of the catalog wait for whoever holds a log.

    Attributes:
        node_id: shown in the names of connections, and by the hint that the node is there.
        why: why a connection failed last, or the attempt to make one, in words without secrets.
        cluster_id, node_password: of the cluster, once opened; by the latter its nodes know each other.
        on_notified: told that something has changed of nodes, leaders or the catalog, perhaps by this node.
    """

    def __init__(
        self,
        url: str,
        node_id: int,
        *,
        schema: str,
        new_cluster_id: Callable[[], str],
        lock_timeout_ms: int = LOCK_TIMEOUT_MS,
    ) -> None:
        if not schema.isidentifier() or not schema.isascii() or schema != schema.lower():
            raise Unsuitable(f"{schema!r} is no name of a schema: letters, digits and _, please")
        self.address = Address(url)
        self.node_id = node_id
        self.cluster_id = ""
        self.node_password = ""
        self.on_notified: Callable[[], None] = lambda: None
        self.why = ""
        self._schema = schema
        self._new_cluster_id = new_cluster_id
        self._lock_timeout_ms = lock_timeout_ms
        self._statements = Statements("")
        self._server: Server | None = None
        self._first = 0
        self._connecting: set[asyncio.Task[None]] = set()

    async def open(self, *, creates: bool = True) -> None:
        """Bring the schema up to date and learn whose it is.

        Args:
            creates: make one if there is none.

        Raises:
            Unavailable: no server could be reached that can be written to.
            Unsuitable: something is wrong with it.
        """
        async with self._one("M", Unsuitable) as connection:
            if not creates and not await _version(connection):
                raise Unsuitable(f"{self.address}: there is no cluster in the schema {self._schema}")
            found = await _migrated(connection, self._schema, self._new_cluster_id)
            self.cluster_id, self.node_password = found
        self._statements = Statements(self.cluster_id, self._lock_timeout_ms)

    @asynccontextmanager
    async def _one(self, role: str, failure: type[EngineError]) -> AsyncIterator[asyncpg.Connection[Any]]:
        """A connection for as long as the block lasts. What goes wrong there is raised as that error."""
        connection, _ = await self._reach(role)
        try:
            yield connection
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise failure(f"{self.address}: {self.address.without_secrets(error)}") from None
        finally:
            connection.terminate()

    async def facts(self) -> Facts:
        """What the server says of itself, and what is in the tables; nothing is changed. Raises as `open`."""
        async with self._one("M", Unsuitable) as connection:
            return await self._within(connection, ask(connection))

    async def grant(self, role: str) -> None:
        """Let a role read and write rows, as nodes have to. Raises as `open`."""
        async with self._one("M", Unsuitable) as connection:
            for statement in schema.GRANTS:
                await connection.execute(statement.format(self._schema, role.replace('"', '""')))

    async def identify(self, name: str) -> int:
        """The id of the node of a name, be it a new one.

        Raises:
            Unavailable: no server could be reached that can be written to, or it was lost.
        """
        command = self._statements.of(port.Identify(name))
        async with self._one("M", Unavailable) as connection:
            while True:
                with suppress(asyncpg.UniqueViolationError):
                    node_id: int = (await connection.fetch(command.text, name))[0][0]
                    return node_id

    async def fetch(self, command: str, *arguments: object) -> Sequence[Sequence[Any]]:
        """Carry a command of an operator out, over a connection of its own.

        Raises:
            Unavailable, Unsuitable: it failed; whether it was carried out is not known.
        """
        async with self._one("L", Unavailable) as connection:
            records: Sequence[Sequence[Any]] = await connection.fetch(command, *arguments)
            return records

    @property
    def hint(self) -> int:
        """The first half of the advisory locks by which nodes show that they are there."""
        return self._statements.hint

    def connect(self, role: str, connected: Callable[[Session | None], None]) -> None:
        """Connect in a role, and tell the session; None if there is none to be had now."""
        task = asyncio.get_running_loop().create_task(self._connect(role, connected))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    def close(self) -> None:
        """Connect no more. Sessions are their owners'."""
        for task in self._connecting:
            task.cancel()

    async def _connect(self, role: str, connected: Callable[[Session | None], None]) -> None:
        session = None
        try:
            connection, server = await self._reach(role)
            given_up = partial(self._given_up, self._first)
            session = AsyncpgSession(connection, self._statements, server, self._failed, given_up)
        except EngineError as error:
            self.why = str(error)
        connected(session)

    def _given_up(self, index: int) -> None:
        """Somebody has waited enough for a host: it may be one that others have left, so try the next one first."""
        if index == self._first:
            self._first = (index + 1) % len(self.address.hosts)

    def _failed(self, error: Exception) -> None:
        self.why = self.address.without_secrets(error)

    async def _reach(self, role: str) -> tuple[asyncpg.Connection[Any], Server]:
        """A connection to the first host that will do, beginning with the one that did last."""
        hosts = self.address.hosts
        whys = []
        for turn in range(len(hosts)):
            index = (self._first + turn) % len(hosts)
            connection = None
            try:
                connection = await self._dial(role, hosts[index])
                server = await self._within(connection, self._examined(connection, role))
                if connection.is_closed():
                    raise Unavailable("it does not answer, or not in time")  # on the way back from the last answer
            except BaseException as error:
                if connection is not None:
                    connection.terminate()
                if isinstance(error, Unsuitable) or not isinstance(error, Exception):
                    raise
                whys.append(self.address.without_secrets(error))
                continue
            self._first = index
            return connection, server
        raise Unavailable(f"{self.address}: {'; '.join(dict.fromkeys(whys))}")

    async def _dial(self, role: str, host: dict[str, Any]) -> asyncpg.Connection[Any]:
        name = f"{self._statements.application}{self.node_id}/{role}"
        return await asyncpg.connect(
            self.address.url,
            **host,
            timeout=CONNECT_S,
            statement_cache_size=64,
            max_cached_statement_lifetime=0,
            target_session_attrs="read-write",
            server_settings=_START
            | _ROLE_START.get(role, {})
            | {"application_name": name[:63], "search_path": self._schema},
        )

    async def _within(self, connection: asyncpg.Connection[Any], work: Awaitable[_T]) -> _T:
        """Let go of a connection whose server does not answer in time."""
        late = asyncio.get_running_loop().call_later(CONNECT_S, connection.terminate)
        asking = asyncio.ensure_future(work)
        asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            return await asyncio.shield(asking)  # whoever is cancelled lets go of the connection, too
        except Exception as error:
            if connection.is_closed():
                raise Unavailable(f"it does not answer, or not in time: {error}") from None
            raise
        finally:
            late.cancel()

    async def _examined(self, connection: asyncpg.Connection[Any], role: str) -> Server:
        """See that this is the server that is meant, and one that keeps what is told."""
        facts = await connection.fetchrow(_FACTS)
        assert facts is not None
        _check(connection, facts, await connection.fetchrow(_read_back()))
        server = Server(*await connection.fetchrow(_LIFE))
        await connection.fetch(_TYPES, (), (), (), ())  # asyncpg asks what they are, once a connection
        if self.cluster_id:
            # One that others have left may still answer, but it does not commit any more.
            await connection.fetch(_PROOF)
            if role == "H":
                await connection.fetch("SELECT pg_advisory_lock_shared($1, $2)", self._statements.hint, self.node_id)
                await connection.add_listener(f"ottla/{self._schema}", lambda *told: self.on_notified())
        if self._server is None or server > self._server:
            self._server = server
        if server != self._server:
            raise Unavailable("a server that others have left")
        return self._server


def _read_back() -> str:
    return "SELECT " + ", ".join(f"current_setting('{name}') AS {name}" for name in _SETTINGS)


def _check(connection: asyncpg.Connection[Any], facts: Any, settings: Any) -> None:
    """Refuse a server that cannot be relied upon."""
    if facts["pid"] != connection.get_server_pid():
        raise Unsuitable("connect to the server itself, not through a pooler")
    if facts["version"] < OLDEST_SERVER:
        raise Unsuitable(f"the server is too old: it has to be PostgreSQL {OLDEST_SERVER // 10_000} or later")
    if facts["recovers"]:
        raise Unavailable("a standby")
    for name, wanted in _SETTINGS.items():
        if settings[name] != wanted:
            raise Unsuitable(f"the server insists on {name}={settings[name]}: it has to be {wanted}")


async def _migrated(
    connection: asyncpg.Connection[Any], name: str, new_cluster_id: Callable[[], str]
) -> tuple[str, str]:
    """Add to a schema what this version knows and it has not; the id of its cluster, and the password of its nodes."""
    for _ in range(MIGRATE_TRIES):
        version = await _version(connection)
        if version == len(schema.MIGRATIONS):
            break
        # Not within the transaction: one that begins before somebody else has committed does not see new tables.
        if not await connection.fetchval("SELECT pg_try_advisory_lock(hashtext($1))", f"ottla migrates {name}"):
            await asyncio.sleep(MIGRATE_AGAIN_S)
            continue
        try:
            async with connection.transaction():
                await connection.execute("SET LOCAL lock_timeout = '100ms'")
                if await _version(connection) == version:
                    await _migrate(connection, name, version, new_cluster_id)
        except asyncpg.LockNotAvailableError:
            continue
        except asyncpg.InsufficientPrivilegeError as error:
            raise Unsuitable(
                f"this Ottla needs the tables of schema {len(schema.MIGRATIONS)}, {name} has those of {version}, or "
                f"shows none, and the role may not make them ({error}): upgrade them by `ottla cluster migrate`, which "
                "takes the URL of their owner"
            ) from None
    else:
        raise Unsuitable(f"somebody has kept the tables of the schema {name} locked: nothing was changed")
    found = await connection.fetchrow("SELECT cluster_id, node_password FROM cluster")
    assert found is not None
    return str(found[0]), str(found[1])


async def _version(connection: asyncpg.Connection[Any]) -> int:
    if await connection.fetchval("SELECT to_regclass('cluster')") is None:
        return 0
    version, needed = await connection.fetchrow("SELECT schema_version, schema_min_code FROM cluster")
    if needed > len(schema.MIGRATIONS):
        raise Unsuitable(f"its tables are those of a newer Ottla, of schema {version}: upgrade this node")
    return min(int(version), len(schema.MIGRATIONS))


async def _migrate(
    connection: asyncpg.Connection[Any], name: str, version: int, new_cluster_id: Callable[[], str]
) -> None:
    if version == 0:
        await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{name}"')
    for statement in schema.MIGRATIONS[version]:
        await connection.execute(statement)
    if version == 0:
        await connection.execute(
            "INSERT INTO cluster (cluster_id, node_password, schema_version, schema_min_code) VALUES ($1, $2, 1, $3)",
            new_cluster_id(),
            secrets.token_hex(),
            schema.OLDEST_CODE,
        )
    else:
        await connection.execute(
            "UPDATE cluster SET schema_version = $1, schema_min_code = $2", version + 1, schema.OLDEST_CODE
        )
