"""The statements of the port in PostgreSQL's SQL. Each is one command, and so one transaction in one round trip.

They rely on what read committed promises: a row that a command locks is read anew after the wait, and its condition is
looked at again; everything else is as old as the snapshot with which the command began. A parameter of a condition may
have changed until the lock is there, so conditions on a log stand where the log is locked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

from ottla.broker.cluster.membership import Heard, NodeRow, Server
from ottla.broker.cluster.plan import LogRow
from ottla.broker.cluster.view import NOBODY, NodeState
from ottla.broker.storage.postgres import database as port

LOCK_TIMEOUT_MS: Final = 300
SWEPT_AT_ONCE: Final = 500
AUDIT_DAYS: Final = 30

Records = Sequence[Sequence[Any]]


class Sql(NamedTuple):
    """A statement of the port as a command, its arguments, and what its records say."""

    text: str
    arguments: Callable[[Any], Sequence[object]]
    result: Callable[[Records], port.Result]


_json = msgspec.json.Encoder()


def _columns(rows: Sequence[Sequence[object]], width: int) -> list[Sequence[object]]:
    """The columns of some rows: one array each."""
    return list(zip(*rows, strict=True)) or [()] * width


def _batches(rows: Sequence[port.Row]) -> list[Sequence[object]]:
    return _columns([(r.log_id, r.base_offset, r.last_offset, r.max_timestamp_ms, r.head, r.body) for r in rows], 6)


def _one(records: Records) -> Any:
    return records[0][0]


def _found(records: Records) -> bool:
    return bool(records)


def _ids(records: Records) -> port.Result:
    return tuple(sorted(log_id for (log_id,) in records))


def _pairs(records: Records) -> port.Result:
    return tuple(sorted((log_id, epoch) for log_id, epoch in records))


# Appends

_LAST = "(SELECT b.last_offset + 1 FROM pbatch b WHERE b.log_id = {} ORDER BY b.base_offset DESC LIMIT 1)"
"""Where the last row of a log ends: one look at the end of an index."""

APPEND = f"""
WITH head AS MATERIALIZED (
  SELECT h.* FROM unnest($1::int[], $2::int[], $3::bigint[]) h(log_id, epoch, base)),
fence AS MATERIALIZED (
  SELECT p.log_id, p.leader_epoch, greatest(p.log_start, p.sealed) AS least_end FROM plog p
   WHERE p.log_id = ANY($1::int[]) AND NOT p.is_deleted ORDER BY p.log_id FOR SHARE),
seen AS MATERIALIZED (
  SELECT h.log_id, h.epoch, h.base, f.leader_epoch, greatest(f.least_end, {_LAST.format("h.log_id")}) AS log_end
    FROM head h JOIN fence f USING (log_id)),
put AS (
  INSERT INTO pbatch (log_id, base_offset, last_offset, leader_epoch, max_ts, head, body)
  SELECT r.log_id, r.base, r.last, s.epoch, r.max_ts, r.head, r.body
    FROM unnest($4::int[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bytea[], $9::bytea[])
           r(log_id, base, last, max_ts, head, body)
    JOIN seen s ON s.log_id = r.log_id AND s.leader_epoch = s.epoch AND s.log_end = s.base)
SELECT log_id, leader_epoch, log_end FROM seen"""


def _append(s: port.Append) -> Sequence[object]:
    return (*_columns(s.heads, 3), *_batches(s.rows))


def _stored(records: Records) -> port.Result:
    return tuple(sorted(port.Stored(*record) for record in records))


# Who leads

_CLAIM = """
WITH sign AS MATERIALIZED (
  SELECT 1 FROM node n WHERE n.node_id = $5::int AND n.incarnation = $6 AND n.beat = $7 FOR SHARE),
{patience}
free AS MATERIALIZED (
  SELECT p.log_id FROM plog p JOIN unnest($1::int[], $2::int[]) w(log_id, epoch)
      ON p.log_id = w.log_id AND p.leader_epoch = w.epoch {patiently}
   WHERE NOT p.is_deleted AND ($5::int IS NULL OR EXISTS (SELECT FROM sign))
   ORDER BY p.log_id FOR NO KEY UPDATE OF p {skipping}),
led AS (
  UPDATE plog p SET leader_id = $3, leader_inc = $4, leader_epoch = p.leader_epoch + 1, called = ''
    FROM free WHERE p.log_id = free.log_id RETURNING p.log_id, p.leader_epoch)
INSERT INTO audit (log_id, epoch, node_id, incarnation, why)
SELECT log_id, leader_epoch, $3, $4, $8::text FROM led RETURNING log_id, epoch"""
# A lock is only waited for behind the sort, and by then the time-out is set. It ends with the transaction.
_PATIENCE = "patience AS MATERIALIZED (SELECT set_config('lock_timeout', {}::text, true)"

CLAIM_FREE = _CLAIM.format(patience="", patiently="", skipping="SKIP LOCKED")
CLAIM = _CLAIM.format(patience=f"{_PATIENCE.format('$9')}),", patiently="CROSS JOIN patience", skipping="")

HAND_OVER = """
WITH free AS MATERIALIZED (
  SELECT p.log_id FROM plog p JOIN unnest($1::int[], $2::int[]) w(log_id, epoch)
      ON p.log_id = w.log_id AND p.leader_epoch = w.epoch
   WHERE NOT p.is_deleted ORDER BY p.log_id FOR NO KEY UPDATE OF p),
led AS (
  UPDATE plog p SET leader_id = $3, leader_inc = $4, leader_epoch = p.leader_epoch + 1, called = ''
    FROM free WHERE p.log_id = free.log_id RETURNING p.log_id, p.leader_epoch)
INSERT INTO audit (log_id, epoch, node_id, incarnation, why)
SELECT log_id, leader_epoch, $3, $4, $5::text FROM led RETURNING log_id, epoch"""

CALL_HOME = f"""
WITH {_PATIENCE.format("$3")}),
away AS MATERIALIZED (
  SELECT p.log_id FROM plog p CROSS JOIN patience
   WHERE p.log_id = ANY($1::int[]) AND p.leader_id <> p.home AND NOT p.is_deleted
   ORDER BY p.log_id FOR NO KEY UPDATE OF p),
called AS (UPDATE plog p SET called = $2 FROM away WHERE p.log_id = away.log_id RETURNING 1)
SELECT count(*) FROM called"""

DEPOSE = f"""
WITH counted AS (UPDATE counter SET value = value + $1::int RETURNING name, value),
ended AS (
  UPDATE node SET incarnation = c.value - 1, state = 3 FROM counted c WHERE c.name = 'incarnation'),
changed AS (UPDATE cluster SET meta_version = meta_version + $1::int),
led AS (
  UPDATE plog SET leader_id = {NOBODY}, leader_inc = 0, leader_epoch = leader_epoch + $1::int
   WHERE NOT is_deleted RETURNING log_id, leader_epoch)
INSERT INTO audit (log_id, epoch, node_id, incarnation)
SELECT log_id, leader_epoch, {NOBODY}, 0 FROM led RETURNING log_id, epoch"""

EVICT = """
SELECT count(*) FROM (
  SELECT pg_terminate_backend(a.pid) AS is_told FROM pg_stat_activity a
   WHERE a.pid = ANY(pg_blocking_pids($1)) AND starts_with(a.application_name, $2)) ended WHERE ended.is_told"""

# With the row of the cluster locked a reading is a commit that waits for the standby. Nobody waits for this lock.
READ_LOGS = """
WITH proof AS MATERIALIZED (SELECT 1 FROM cluster FOR KEY SHARE)
SELECT p.log_id, p.home, p.leader_id, p.leader_inc, p.leader_epoch, p.is_internal, p.follows, p.called
  FROM proof LEFT JOIN plog p ON NOT p.is_deleted ORDER BY p.log_id"""


def _claim(s: port.Claim) -> Sequence[object]:
    return (*_columns(s.wanted, 2), s.node_id, s.incarnation, *(s.last_sign or (None, None, None)), s.why)


def _hand_over(s: port.HandOver) -> Sequence[object]:
    return (*_columns(s.led, 2), s.heir_id, s.heir_incarnation, s.why)


def _logs(records: Records) -> port.Result:
    return tuple(LogRow(*record) for record in records if record[0] is not None)


# Nodes

BEAT = """
WITH beaten AS (UPDATE node SET beat = beat + 1, beaten = clock_timestamp()
  WHERE node_id = $1 AND incarnation = $2 RETURNING 1)
SELECT EXISTS (SELECT FROM beaten),
  (SELECT json_agg(json_build_array(node_id, incarnation, state, beat, intent, endpoints, rack)) FROM node)::text,
  (SELECT meta_version FROM cluster), logs.number, logs.epochs, logs.called,
  ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int,
  (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint,
  (SELECT array_agg(l.objid::int) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = $3::oid AND l.granted
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
 FROM (SELECT count(*) AS number, coalesce(sum(leader_epoch), 0) AS epochs,
              count(*) FILTER (WHERE called <> '') AS called FROM plog WHERE NOT is_deleted) logs"""

IDENTIFY = """
WITH known AS MATERIALIZED (SELECT node_id FROM node WHERE name = $1),
next AS (
  INSERT INTO counter AS c SELECT 'node_id', coalesce(max(n.node_id), 0) + 2 FROM node n
  HAVING NOT EXISTS (SELECT FROM known)
  ON CONFLICT (name) DO UPDATE SET value = greatest(c.value + 1, excluded.value) RETURNING (value - 1)::int AS node_id),
made AS (INSERT INTO node (node_id, name, incarnation, state) SELECT node_id, $1, 0, 3 FROM next RETURNING node_id)
SELECT node_id FROM known UNION ALL SELECT node_id FROM made"""

REGISTER = """
WITH life AS (
  INSERT INTO counter AS c VALUES ('incarnation', 1)
  ON CONFLICT (name) DO UPDATE SET value = c.value + 1 RETURNING value - 1 AS number)
INSERT INTO node (node_id, incarnation, state, version) SELECT $1, number, 1, $2 FROM life
ON CONFLICT (node_id) DO UPDATE SET incarnation = excluded.incarnation, state = 1, beat = 0, endpoints = '{}',
  rack = NULL, version = excluded.version, since = clock_timestamp()
RETURNING incarnation"""

DESCRIBE = """
UPDATE node SET state = CASE WHEN $2::bigint IS NOT NULL THEN 3 WHEN $5::bool THEN 2 ELSE state END,
  intent = coalesce($3, intent), endpoints = coalesce($4::text::jsonb, endpoints)
 WHERE node_id = $1 AND ($2::bigint IS NULL OR incarnation = $2) RETURNING 1"""


def _heard(records: Records) -> Heard:
    is_mine, nodes, version, number, epochs, called, timeline, started, held = records[0]
    return Heard(
        is_mine,
        tuple(_node(*row) for row in msgspec.json.decode(nodes or "[]")),
        version,
        (number, int(epochs), called),
        Server(timeline, started),
        frozenset(held or ()),
    )


def _node(
    node_id: int, incarnation: int, state: int, beat: int, intent: int, endpoints: dict[str, Any], rack: str | None
) -> NodeRow:
    told = {name: (str(host), int(number)) for name, (host, number) in endpoints.items()}
    return NodeRow(node_id, incarnation, NodeState(state), beat, intent, told, rack)


def _describe(s: port.Describe) -> Sequence[object]:
    told = None if s.endpoints is None else _json.encode(s.endpoints).decode()
    return s.node_id, s.ended, s.intent, told, s.is_leaving


# Reading

# The sizes of large bodies are known without them.
LOAD = f"""
WITH log AS MATERIALIZED (
  SELECT p.log_start, greatest(p.log_start, p.sealed, {_LAST.format("$1")}) AS log_end, s.upto, s.state
    FROM plog p LEFT JOIN psnap s ON s.log_id = p.log_id
   WHERE p.log_id = $1 AND p.leader_epoch = $2 AND NOT p.is_deleted)
SELECT log.*, (SELECT json_object_agg(e.epoch, e.start_offset) FROM pepoch e WHERE e.log_id = $1)::text, batches.*
  FROM log CROSS JOIN LATERAL (
    SELECT array_agg(c.base_offset), array_agg(c.last_offset), array_agg(c.size), array_agg(c.max_ts) FROM (
      SELECT b.base_offset, b.last_offset, b.max_ts, octet_length(b.head) + octet_length(b.body) AS size FROM pbatch b
       WHERE b.log_id = $1 AND b.last_offset >= log.log_start AND b.base_offset >= coalesce(
         (SELECT d.base_offset FROM pbatch d WHERE d.log_id = $1 AND d.base_offset <= log.log_start
           ORDER BY d.base_offset DESC LIMIT 1), log.log_start)
       ORDER BY b.base_offset) c) batches"""

# What is looked at is bounded by the limit, what is sent by the sum; sizes of large bodies are known without them.
PAGE = f"""
WITH log AS MATERIALIZED (
  SELECT p.log_id FROM plog p WHERE p.log_id = $1 AND p.leader_epoch = $2 AND NOT p.is_deleted
     AND greatest(p.log_start, p.sealed, {_LAST.format("$1")}) >= $4)
SELECT NULL::bigint AS base_offset, NULL::bigint, NULL::int, NULL::bigint, NULL::bytea, NULL::bytea FROM log
 UNION ALL
SELECT r.base_offset, r.last_offset, r.leader_epoch, r.max_ts, r.head, r.body FROM log CROSS JOIN (
  SELECT f.*, row_number() OVER up AS number, sum(octet_length(f.head) + octet_length(f.body)) OVER up AS run FROM (
    SELECT c.* FROM pbatch c WHERE c.log_id = $1 AND c.base_offset < $4 AND c.last_offset >= $3
       AND c.base_offset >= coalesce((SELECT d.base_offset FROM pbatch d WHERE d.log_id = $1 AND d.base_offset <= $3
                                       ORDER BY d.base_offset DESC LIMIT 1), $3)
     ORDER BY c.base_offset LIMIT 1000) f WINDOW up AS (ORDER BY f.base_offset)) r
 WHERE r.number = 1 OR r.run <= $5"""

READ_CATALOG = "SELECT meta_version, meta FROM cluster FOR KEY SHARE"


def _rows(log_id: int, records: Records) -> tuple[port.Row, ...]:
    return tuple(sorted(port.Row(log_id, *record[:6]) for record in records))


def _loaded(records: Records) -> port.Loaded | None:
    if not records:
        return None
    start, end, upto, state, epochs, *columns = records[0]
    return port.Loaded(
        start,
        end,
        port.Outline(*(column or () for column in columns)),
        {int(epoch): offset for epoch, offset in msgspec.json.decode(epochs or "{}").items()},
        None if state is None else (upto, msgspec.msgpack.decode(state)),
    )


def _page(log_id: int, records: Records) -> Sequence[port.Row] | None:
    return _rows(log_id, [record for record in records if record[0] is not None]) if records else None


# Upkeep of a log

_FENCE = """
WITH fence AS MATERIALIZED (
  SELECT p.log_id, p.sealed FROM plog p
   WHERE p.log_id = $1 AND p.leader_epoch = $2 AND NOT p.is_deleted FOR SHARE)"""

BEGIN_EPOCH = f"""{_FENCE}
INSERT INTO pepoch SELECT f.log_id, e.* FROM fence f CROSS JOIN unnest($3::int[], $4::bigint[]) e
ON CONFLICT (log_id, epoch) DO UPDATE SET start_offset = excluded.start_offset RETURNING 1"""

BEGIN_EPOCHS = """
WITH fence AS MATERIALIZED (
  SELECT p.log_id, b.epoch, b.start FROM plog p
    JOIN unnest($1::int[], $2::int[], $3::bigint[]) b(log_id, epoch, start)
      ON p.log_id = b.log_id AND p.leader_epoch = b.epoch
   WHERE NOT p.is_deleted ORDER BY p.log_id FOR SHARE OF p),
put AS (
  INSERT INTO pepoch SELECT * FROM fence
  ON CONFLICT (log_id, epoch) DO UPDATE SET start_offset = excluded.start_offset)
SELECT log_id FROM fence"""

# One that comes late does not take the place of a newer one: the rows between them may be gone.
SAVE_SNAPSHOT = f"""{_FENCE},
put AS (
  INSERT INTO psnap AS s (log_id, upto, epoch, state) SELECT log_id, $3, $2, $4 FROM fence
  ON CONFLICT (log_id) DO UPDATE SET upto = excluded.upto, epoch = excluded.epoch, state = excluded.state
    WHERE s.upto <= excluded.upto)
SELECT 1 FROM fence"""

_RAISE = """
UPDATE plog SET {0} = greatest({0}, $3) WHERE log_id = $1 AND leader_epoch = $2 AND NOT is_deleted RETURNING 1"""
TRIM = _RAISE.format("log_start")
SEAL = _RAISE.format("sealed")

SWEEP = f"""
WITH gone AS (
  DELETE FROM pbatch b USING (
    SELECT c.base_offset FROM plog p JOIN pbatch c ON c.log_id = p.log_id AND c.last_offset < p.log_start
     WHERE p.log_id = $1 AND c.base_offset < p.log_start ORDER BY c.base_offset LIMIT {SWEPT_AT_ONCE}) below
   WHERE b.log_id = $1 AND b.base_offset = below.base_offset RETURNING 1)
SELECT count(*) FROM gone"""

# What is to be deleted in one statement is what the limits say. Nothing is appended to a log that is deleted.
TIDY = f"""
WITH left_of AS MATERIALIZED (
  SELECT b.log_id, b.base_offset FROM plog p JOIN pbatch b ON b.log_id = p.log_id
   WHERE p.is_deleted LIMIT {SWEPT_AT_ONCE}),
gone AS (
  DELETE FROM pbatch b USING left_of WHERE b.log_id = left_of.log_id AND b.base_offset = left_of.base_offset
  RETURNING 1),
empty AS MATERIALIZED (
  SELECT p.log_id FROM plog p WHERE p.is_deleted AND NOT EXISTS (SELECT FROM pbatch b WHERE b.log_id = p.log_id)
   ORDER BY p.log_id LIMIT {SWEPT_AT_ONCE} FOR UPDATE OF p SKIP LOCKED),
epochs AS (DELETE FROM pepoch e USING empty WHERE e.log_id = empty.log_id),
snapshots AS (DELETE FROM psnap s USING empty WHERE s.log_id = empty.log_id),
logs AS (DELETE FROM plog p USING empty WHERE p.log_id = empty.log_id RETURNING 1),
lines AS (
  DELETE FROM audit WHERE ctid = ANY (ARRAY(
    SELECT a.ctid FROM audit a WHERE a.at < clock_timestamp() - interval '{AUDIT_DAYS} days' LIMIT {SWEPT_AT_ONCE}))
  RETURNING 1)
SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM logs) + (SELECT count(*) FROM lines)"""

# The rows are locked before they are counted, so a copy finds those that another has left, and takes none of them.
REPLACE = f"""{_FENCE},
old AS MATERIALIZED (
  SELECT b.base_offset FROM pbatch b WHERE b.log_id = $1 AND b.base_offset >= $3 AND b.base_offset < $4
     AND EXISTS (SELECT FROM fence WHERE sealed >= $4) ORDER BY b.base_offset FOR UPDATE),
fit AS MATERIALIZED (SELECT 1 FROM fence WHERE sealed >= $4 AND (SELECT count(*) FROM old) = $5),
gone AS (
  DELETE FROM pbatch b USING old WHERE b.log_id = $1 AND b.base_offset = old.base_offset AND EXISTS (SELECT FROM fit)
  RETURNING 1),
put AS (
  INSERT INTO pbatch (log_id, base_offset, last_offset, leader_epoch, max_ts, head, body)
  SELECT r.log_id, r.base, r.last, r.epoch, r.max_ts, r.head, r.body
    FROM unnest($6::int[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[], $11::bytea[], $12::int[])
           r(log_id, base, last, max_ts, head, body, epoch)
   WHERE EXISTS (SELECT FROM fit) AND (SELECT count(*) FROM gone) = $5)
SELECT 1 FROM fit"""


def _begin_epoch(s: port.BeginEpoch) -> Sequence[object]:
    return s.log_id, s.leader_epoch, *_columns([*s.earlier, (s.leader_epoch, s.start_offset)], 2)


def _replace(s: port.Replace) -> Sequence[object]:
    epochs = [row.leader_epoch for row in s.rows]
    return s.log_id, s.leader_epoch, s.first_offset, s.next_offset, s.expected, *_batches(s.rows), epochs


# Catalog and counters

STORE_CATALOG = f"""
WITH changed AS (
  UPDATE cluster SET meta_version = meta_version + 1, meta = $2 WHERE meta_version = $1 RETURNING meta_version),
created AS (
  INSERT INTO plog (log_id, home, leader_id, leader_inc, leader_epoch, is_internal, follows)
  SELECT l.* FROM changed CROSS JOIN unnest($3::int[], $4::int[], $5::int[], $6::bigint[], $7::int[], $8::bool[],
                                            $9::int[]) l),
{_PATIENCE.format("$13")} FROM changed),
held AS MATERIALIZED (
  SELECT p.log_id FROM plog p CROSS JOIN patience
   WHERE p.log_id = ANY($10::int[]) OR p.log_id = ANY($12::int[]) ORDER BY p.log_id FOR NO KEY UPDATE OF p),
moved AS (
  UPDATE plog p SET home = w.home, called = CASE WHEN p.leader_id = w.home THEN '' ELSE $14::text END
    FROM held JOIN unnest($10::int[], $11::int[]) w(log_id, home) USING (log_id)
   WHERE p.log_id = held.log_id),
deleted AS (
  UPDATE plog p SET is_deleted = true, leader_id = {NOBODY}, leader_inc = 0, leader_epoch = p.leader_epoch + 1
    FROM held WHERE p.log_id = held.log_id AND p.log_id = ANY($12::int[]))
SELECT meta_version FROM changed"""

TAKE = """
INSERT INTO counter AS c VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = c.value + excluded.value RETURNING value - $2"""


def _store_catalog(s: port.StoreCatalog) -> Sequence[object]:
    created, homes = _columns([row[:7] for row in s.created], 7), _columns(s.homes, 2)
    return s.over, _json.encode(s.document), *created, *homes, list(s.deleted)


def _catalog(records: Records) -> tuple[int, object]:
    version, document = records[0]
    return version, msgspec.json.decode(document)


class Statements:
    """The commands of one cluster, by the statements of the port.

    Documents of the catalog are kept as JSON, states of snapshots as MessagePack: tuples come back as lists.
    """

    def __init__(self, cluster_id: str, lock_timeout_ms: int = LOCK_TIMEOUT_MS) -> None:
        self.application = f"ottla/{cluster_id}/"
        """How the names of this cluster's connections begin."""
        self.hint = crc32(cluster_id.encode()) >> 1
        """The first half of the advisory locks by which nodes show that they are there; their ids are the other."""
        self._patience = str(lock_timeout_ms)
        self._by_type = self._all()

    def of(self, statement: port.Statement) -> Sql:
        """The command for a statement."""
        if type(statement) is port.Claim:
            if statement.skips:
                return Sql(CLAIM_FREE, _claim, _pairs)
            return Sql(CLAIM, lambda s: (*_claim(s), self._patience), _pairs)
        if type(statement) is port.Page:
            return Sql(PAGE, tuple, lambda records: _page(statement.log_id, records))
        return self._by_type[type(statement)]

    def _all(self) -> dict[type, Sql]:
        return {
            port.Beat: Sql(BEAT, lambda s: (*s, self.hint), _heard),
            port.Identify: Sql(IDENTIFY, tuple, _one),
            port.Register: Sql(REGISTER, tuple, _one),
            port.Describe: Sql(DESCRIBE, _describe, _found),
            port.ReadLogs: Sql(READ_LOGS, tuple, _logs),
            port.Append: Sql(APPEND, _append, _stored),
            port.Evict: Sql(EVICT, lambda s: (*s, self.application), _one),
            port.HandOver: Sql(HAND_OVER, _hand_over, _pairs),
            port.Depose: Sql(DEPOSE, tuple, _pairs),
            port.Load: Sql(LOAD, tuple, _loaded),
            port.CallHome: Sql(CALL_HOME, lambda s: (*s, self._patience), _one),
            port.BeginEpoch: Sql(BEGIN_EPOCH, _begin_epoch, _found),
            port.BeginEpochs: Sql(BEGIN_EPOCHS, lambda s: _columns(s.begun, 3), _ids),
            port.SaveSnapshot: Sql(SAVE_SNAPSHOT, lambda s: (*s[:3], msgspec.msgpack.encode(s.state)), _found),
            port.Trim: Sql(TRIM, tuple, _found),
            port.Seal: Sql(SEAL, tuple, _found),
            port.Sweep: Sql(SWEEP, tuple, _one),
            port.Tidy: Sql(TIDY, tuple, _one),
            port.Replace: Sql(REPLACE, _replace, _found),
            port.ReadCatalog: Sql(READ_CATALOG, tuple, _catalog),
            port.StoreCatalog: Sql(
                STORE_CATALOG,
                lambda s: (*_store_catalog(s), self._patience, s.called),
                lambda records: records[0][0] if records else None,
            ),
            port.Take: Sql(TAKE, tuple, _one),
        }
