"""What a server of PostgreSQL says of itself, and the tables of a cluster of its nodes: for checks, not for nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ottla.broker.storage.postgres.statements import Statements

TABLES: Final = """
SELECT c.cluster_id, c.schema_version, c.schema_min_code,
  (SELECT json_agg(json_build_array(n.node_id, n.name, n.version, n.state <> 3, n.endpoints) ORDER BY n.node_id)
     FROM node n)::text
  FROM cluster c"""

# An ordinary role sees how many standbys and sessions there are, and what is under way in its own sessions alone.
SERVER: Final = """
SELECT current_setting('server_version') AS version,
  current_setting('fsync') = 'on' AS has_fsync,
  current_setting('full_page_writes') = 'on' AS writes_full_pages,
  current_setting('synchronous_commit') AS synchronous_commit,
  current_setting('synchronous_standby_names') AS synchronous_standby_names,
  (SELECT count(*) FROM pg_stat_replication) AS standbys,
  to_regproc('aurora_version') IS NOT NULL OR EXISTS (
    SELECT FROM pg_settings WHERE name LIKE 'neon.%' OR name LIKE 'alloydb.%') AS replicates_below,
  (SELECT setting::bigint FROM pg_settings WHERE name = 'max_wal_size') AS max_wal_mib,
  (SELECT setting::int FROM pg_settings WHERE name = 'checkpoint_timeout') AS checkpoint_timeout_s,
  (SELECT 2 * max(setting::int) - sum(setting::int) FROM pg_settings
    WHERE name IN ('max_connections', 'superuser_reserved_connections', 'reserved_connections')) AS connections,
  (SELECT sum(numbackends) FROM pg_stat_database)
    - (SELECT count(*) FROM pg_stat_activity WHERE starts_with(application_name, $1)) AS taken,
  greatest(0, extract(epoch FROM clock_timestamp() - (SELECT min(xact_start) FROM pg_stat_activity
                                                       WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid())),
    extract(epoch FROM clock_timestamp() - (SELECT min(prepared) FROM pg_prepared_xacts)))::float8 AS snapshot_s,
  pg_has_role('pg_read_all_stats', 'usage') AS sees_all,
  extract(epoch FROM clock_timestamp())::float8 AS now_s,
  NOT coalesce(inet_client_addr() <<= '127.0.0.0/8' OR inet_client_addr() = '::1', true) AS is_remote,
  coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS is_encrypted"""


class NodeFacts(NamedTuple):
    """A node as its row has it. Of one that ``is_up`` nobody has seen the end."""

    node_id: int
    name: str | None
    version: str
    is_up: bool
    endpoints: Mapping[str, tuple[str, int]]


class Facts(NamedTuple):
    """What a server says, and the tables of the cluster.

    Attributes:
        standbys: so many follow, in whatever way.
        replicates_below: it is one whose storage is on several machines, whatever its settings say.
        connections: so many may be had by ordinary roles; ``taken`` by others than the nodes of this cluster.
        snapshot_s: the age of the oldest snapshot; where it does not ``sees_all``, of those of its own role.
        now_s: what the server takes the time for.
        is_remote, is_encrypted: of the connection by which it was asked.
        cluster_id: empty if there are no tables yet.
        schema_version: 0 then.
        schema_needs: what a node must know at least to work with these tables.
    """

    version: str
    has_fsync: bool
    writes_full_pages: bool
    synchronous_commit: str
    synchronous_standby_names: str
    standbys: int
    replicates_below: bool
    max_wal_mib: int
    checkpoint_timeout_s: int
    connections: int
    taken: int
    snapshot_s: float
    sees_all: bool
    now_s: float
    is_remote: bool
    is_encrypted: bool
    cluster_id: str = ""
    schema_version: int = 0
    schema_needs: int = 0
    nodes: Sequence[NodeFacts] = ()


def facts_of(server: Sequence[Any], tables: Sequence[Any] | None) -> Facts:
    """The facts of the answers to both queries; there is none to the second where there are no tables."""
    if tables is None:
        return Facts(*server)
    cluster_id, version, needs, rows = tables
    nodes = msgspec.json.decode(rows or "[]", type=list[NodeFacts])
    return Facts(*server)._replace(cluster_id=cluster_id, schema_version=version, schema_needs=needs, nodes=nodes)


async def ask(connection: Any) -> Facts:
    """Ask a server, over a connection of asyncpg."""
    tables = None
    if await connection.fetchval("SELECT to_regclass('cluster')") is not None:
        tables = await connection.fetchrow(TABLES)
    application = Statements("" if tables is None else tables[0]).application
    return facts_of(await connection.fetchrow(SERVER, application), tables)
