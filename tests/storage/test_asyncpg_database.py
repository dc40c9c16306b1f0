"""How a node comes by sessions of its database: where it is, what is refused, what is told, and what never is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed: pip install 'ottla[cluster]'")

from examples.cluster.postgresql import USER, free_port  # noqa: E402
from ottla.broker.cluster.plan import LogRow  # noqa: E402
from ottla.broker.engine import Unavailable  # noqa: E402
from ottla.broker.storage.postgres import database as port  # noqa: E402
from ottla.broker.storage.postgres import schema  # noqa: E402
from ottla.broker.storage.postgres.asyncpg_database import Address, AsyncpgDatabase, Unsuitable  # noqa: E402
from ottla.broker.storage.postgres.database import Answer  # noqa: E402
from tests.storage.postgres_bench import Pair, connected, database_of, opened  # noqa: E402
from tests.support.tcp_proxy import TcpProxy  # noqa: E402

# The URL


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@a:5432,b:5433/logs?sslmode=disable", "postgresql://me@a:5432,b:5433/logs"),
        ("postgres://me@a/logs", "postgresql://me@a/logs"),
        ("postgresql:///logs?host=a,b&user=me&password=secret", "postgresql://a,b/logs"),
        ("postgresql://me:se%63ret@[::1]:5432/logs", "postgresql://me@[::1]:5432/logs"),
    ],
)
def test_what_is_shown_of_a_url_has_no_secrets(url: str, shown: str) -> None:
    assert str(Address(url)) == repr(Address(url)) == shown


def test_hosts_are_tried_one_by_one() -> None:
    url = "postgresql://a:5432,b,[::1]:5434/logs?port=5433"
    assert Address(url).hosts == [
        {"host": "a", "port": 5432},
        {"host": "b", "port": 5433},
        {"host": "::1", "port": 5434},
    ]
    assert Address("postgresql:///logs?service=s").hosts == [{}]


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:secret@a/logs",
        "secret",
        "postgresql://me:sec/ret@a/logs",
        "postgresql://me:secret@a:b/logs",
        "postgresql://me:secret@[a/logs",
        "postgresql://me:secret@a/logs?target_session_attrs=standby",
        "postgresql://me:secret@a/logs?target_session_attrs=read-only",
    ],
)
def test_a_url_that_will_not_do_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(Unsuitable) as refused:
        Address(url)
    assert "secret" not in str(refused.value) and refused.value.__cause__ is None


@pytest.mark.parametrize("name", ["Ottla", "a b", 'a"', "", "ö"])
def test_a_schema_has_a_plain_name(name: str) -> None:
    with pytest.raises(Unsuitable, match="no name of a schema"):
        AsyncpgDatabase("postgresql://a/logs", 1, schema=name, new_cluster_id=str)


# Servers


@pytest.fixture
def pair(pairs: Any) -> Pair:
    pair: Pair = pairs.get()
    return pair


_schemas = (f"driver_{number}" for number in range(1_000))


@pytest.fixture
def made(pair: Pair) -> Callable[..., AsyncpgDatabase]:
    """Makes the database of a node; all of a test share a schema."""
    schema = next(_schemas)
    return lambda node=1, **options: database_of(pair, node, **{"schema": schema, **options})


async def admin(pair: Pair, *queries: str) -> list[Any]:
    connection = await asyncpg.connect(host="127.0.0.1", port=pair.primary.port, user=USER, database="postgres")
    try:
        return [await connection.fetchval(query) for query in queries]
    finally:
        await connection.close()


async def answer(session: Any, statement: port.Statement) -> Answer:
    told: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    session.send(statement, told.set_result)
    return await told


async def test_nodes_that_start_at_once_make_one_schema(made: Callable[..., AsyncpgDatabase]) -> None:
    names = iter("abc")
    nodes = [made(node, new_cluster_id=lambda: next(names)) for node in (1, 2, 3)]
    await asyncio.gather(*(opened(node) for node in nodes))
    assert {node.cluster_id for node in nodes} == {"a"}
    later = made(4)
    await opened(later)
    assert later.cluster_id == "a"


async def test_a_node_does_not_touch_a_schema_that_is_too_new_for_it(
    pair: Pair, made: Callable[..., AsyncpgDatabase]
) -> None:
    database = made(schema="newer")
    await opened(database)
    await admin(pair, "UPDATE newer.cluster SET schema_version = 9")
    await opened(made(schema="newer"))
    await admin(pair, "UPDATE newer.cluster SET schema_min_code = 9")
    with pytest.raises(Unsuitable, match="newer Ottla, of schema 9: upgrade this node"):
        await opened(made(schema="newer"))


async def test_a_role_without_rights_to_change_the_schema_is_enough_for_a_node(
    pair: Pair, made: Callable[..., AsyncpgDatabase]
) -> None:
    await admin(pair, "CREATE ROLE node LOGIN")
    with pytest.raises(Unsuitable, match="permission denied"):
        await opened(made(schema="shared", user="node"))
    await opened(made(schema="shared"))
    rights = "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA shared TO node"
    await admin(pair, "GRANT USAGE ON SCHEMA shared TO node", f"GRANT {rights}")
    one, two = made(1, schema="shared", user="node"), made(2, schema="shared", user="node")
    await opened(one)
    await opened(two)
    beating, holding, waiting, evicting = [
        await connected(one, "H"),
        await connected(one, "F0"),
        await connected(two, "M"),
        await connected(two, "L"),
    ]
    logs = [LogRow(1, 1, 1, 1, 5)]
    assert (await answer(waiting, port.StoreCatalog(1, {}, created=logs))).result == 2
    assert (await answer(beating, port.Beat(1, 1))).result.held == {1}
    assert (await answer(holding, port.Append((port.Head(1, 5, 0),), ()))).result == (port.Stored(1, 5, 0),)
    assert (await answer(evicting, port.Evict(waiting.number))).result == 0
    for session in (beating, holding, waiting, evicting):
        session.abort()


async def test_tables_that_are_too_old_are_named_and_nodes_may_run_while_they_are_upgraded(
    pair: Pair, made: Callable[..., AsyncpgDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    await admin(pair, "CREATE ROLE reader LOGIN")
    owner = made(schema="older")
    await opened(owner)
    await owner.grant("reader")
    older = made(schema="older", user="reader")
    await opened(older)
    session = await connected(older)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, ("ALTER TABLE node ADD COLUMN more int",)))
    with pytest.raises(Unsuitable, match=r"needs the tables of schema 2, older has those of 1.*cluster migrate"):
        await opened(made(schema="older", user="reader"))
    await opened(made(schema="older"))
    assert (await older.facts()).schema_version == 2
    await opened(made(schema="older", user="reader"))
    assert (await answer(session, port.Register(1))).result == 1
    session.abort()


async def test_what_a_role_has_set_does_not_count(pair: Pair, made: Callable[..., AsyncpgDatabase]) -> None:
    kept = "statement_timeout = '5s'", "lock_timeout = '1s'", "default_transaction_isolation = 'serializable'"
    await admin(pair, *(f"ALTER ROLE {USER} SET {one}" for one in (*kept, "synchronous_commit = off")))
    try:
        database = made()
        await opened(database)
        session = await connected(database)
        connection = session._connection
        shown = [await connection.fetchval(f"SHOW {one.partition(' =')[0]}") for one in (*kept, "synchronous_commit =")]
        assert shown == ["0", "0", "read committed", "on"]
        session.abort()
    finally:
        await admin(pair, f"ALTER ROLE {USER} RESET ALL")


async def test_a_stricter_commit_is_left_as_it_is(pair: Pair, made: Callable[..., AsyncpgDatabase]) -> None:
    await admin(pair, f"ALTER ROLE {USER} SET synchronous_commit = remote_apply")
    try:
        database = made()
        await opened(database)
        session = await connected(database)
        assert await session._connection.fetchval("SHOW synchronous_commit") == "remote_apply"
        session.abort()
    finally:
        await admin(pair, f"ALTER ROLE {USER} RESET ALL")


async def test_a_pooler_is_refused(pair: Pair, made: Callable[..., AsyncpgDatabase]) -> None:
    def pooled(data: bytes) -> bytes:
        return re.sub(rb"K\x00\x00\x00\x0c....", b"K\x00\x00\x00\x0c\x00\x00\x00\x01", data, flags=re.DOTALL)

    proxy = TcpProxy(pair.primary.port, from_server=pooled)
    try:
        with pytest.raises(Unsuitable, match="not through a pooler"):
            await opened(made(ports=[proxy.port]))
    finally:
        proxy.close()


async def test_a_standby_is_passed_over(pair: Pair, made: Callable[..., AsyncpgDatabase]) -> None:
    database = made(ports=[pair.standby.port, pair.primary.port])
    await opened(database)
    with pytest.raises(Unavailable):
        await made(ports=[pair.standby.port]).open()


async def test_a_host_that_was_given_up_is_tried_last(pair: Pair, made: Callable[..., AsyncpgDatabase]) -> None:
    """A server that others have left accepts connections, and only keeps whoever comes waiting."""
    ways = [TcpProxy(pair.primary.port), TcpProxy(pair.primary.port)]
    try:
        database = made(ports=[way.port for way in ways])
        await opened(database)
        (await connected(database)).abort()
        assert len(ways[1].connections) == 0
        (await connected(database)).abort()
        assert len(ways[1].connections) == 1
    finally:
        for way in ways:
            way.close()


async def test_where_nobody_answers_it_says_so_without_secrets() -> None:
    url = f"postgresql://me:secret@127.0.0.1:{free_port()},127.0.0.1:{free_port()}/logs"
    database = AsyncpgDatabase(url, 1, schema="ottla", new_cluster_id=str)
    with pytest.raises(Unavailable) as failed:
        await database.open()
    assert "Connect call failed" in str(failed.value) and "secret" not in str(failed.value)
    told: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    database.connect("M", told.set_result)
    assert await told is None
    assert "Connect call failed" in database.why and "secret" not in database.why


async def test_a_session_that_ends_under_a_statement_says_so_once(
    pair: Pair, made: Callable[..., AsyncpgDatabase]
) -> None:
    database = made()
    await opened(database)
    session, other = await connected(database), await connected(database)
    lost = asyncio.Event()
    session.on_lost = lost.set
    told: list[Answer] = []
    await admin(pair, f"SELECT pg_terminate_backend({session.number})")
    session.send(port.ReadCatalog(), told.append)
    await asyncio.wait_for(lost.wait(), 20)
    session.send(port.ReadCatalog(), told.append)
    assert told == [] and session.server is other.server
    assert (await answer(other, port.ReadCatalog())).result == (1, None)
    other.abort()


async def test_who_lets_go_is_told_nothing(made: Callable[..., AsyncpgDatabase]) -> None:
    database = made()
    await opened(database)
    session = await connected(database)
    told: list[object] = []
    session.on_lost = lambda: told.append("lost")
    session.send(port.ReadCatalog(), told.append)
    session.abort()
    other = await connected(database)
    await answer(other, port.ReadCatalog())
    assert told == []
    other.abort()


async def test_a_table_that_is_gone_ends_the_session_and_says_why(
    pair: Pair, made: Callable[..., AsyncpgDatabase]
) -> None:
    database = made(schema="gone")
    await opened(database)
    session = await connected(database)
    lost = asyncio.Event()
    session.on_lost = lost.set
    await admin(pair, "ALTER TABLE gone.counter RENAME TO elsewhere")
    session.send(port.Take("ids", 1), lambda told: None)
    await asyncio.wait_for(lost.wait(), 20)
    assert database.why == 'relation "counter" does not exist'
