"""The tables of a cluster, and how they came to be. A database has the first n of `MIGRATIONS`, and says so itself.

Each is a list of statements with which nodes of the release before can live. What stands here is never changed: what is
to be different is a migration of its own. The name of the schema is that of the connection's search path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

BATCH_TABLES: Final = 8
"""Rows of logs are in so many tables, by the hash of the log: each is vacuumed by itself."""

_VACUUM: Final = (
    "{0}autovacuum_vacuum_insert_scale_factor = 0.2, {0}autovacuum_vacuum_scale_factor = 0.05, "
    "{0}autovacuum_vacuum_cost_limit = 2000"
)
"""Often and at full speed. As inserts alone set it off, rows are frozen as they come, and no wraparound gathers."""


def _batch_tables() -> list[str]:
    made = []
    for number in range(BATCH_TABLES):
        made += [
            f"CREATE TABLE pbatch_{number} PARTITION OF pbatch"
            f" FOR VALUES WITH (MODULUS {BATCH_TABLES}, REMAINDER {number})"
            f" WITH ({_VACUUM.format('')}, {_VACUUM.format('toast.')})",
            # Producers have compressed it already.
            f"ALTER TABLE pbatch_{number} ALTER COLUMN body SET STORAGE EXTERNAL",
        ]
    return made


_TOLD: Final = {
    "cluster": "meta_version",
    "node": "incarnation, state, intent, endpoints",
    "plog": "leader_epoch, called",
}
"""The columns of which all nodes are told that they have changed."""

MIGRATIONS: Final[Sequence[Sequence[str]]] = (
    (
        # One row.
        "CREATE TABLE cluster (only_one bool PRIMARY KEY DEFAULT true CHECK (only_one), cluster_id text NOT NULL,"
        " node_password text NOT NULL, schema_version int NOT NULL, schema_min_code int NOT NULL,"
        " meta_version bigint NOT NULL DEFAULT 1, meta bytea NOT NULL DEFAULT 'null')",
        # No sequences: what they gave may be given again after a crash.
        "CREATE TABLE counter (name text PRIMARY KEY, value bigint NOT NULL)",
        "INSERT INTO counter VALUES ('incarnation', 1)",
        # States: 1 up, 2 about to end, 3 down. Intents: 1 drain.
        # Its rows change with every beat, so pages have room for the next versions.
        "CREATE TABLE node (node_id int PRIMARY KEY, name text UNIQUE, version text NOT NULL DEFAULT '',"
        " incarnation bigint NOT NULL, state smallint NOT NULL,"
        " intent smallint NOT NULL DEFAULT 0, beat bigint NOT NULL DEFAULT 0, endpoints jsonb NOT NULL DEFAULT '{}',"
        " rack text, since timestamptz NOT NULL DEFAULT clock_timestamp(), beaten timestamptz)"
        " WITH (fillfactor = 20)",
        # Written when leader, home or start of a log change, and never by an append.
        "CREATE TABLE plog (log_id int PRIMARY KEY, home int NOT NULL, leader_id int NOT NULL,"
        " leader_inc bigint NOT NULL, leader_epoch int NOT NULL, is_internal bool NOT NULL DEFAULT false, follows int,"
        " log_start bigint NOT NULL DEFAULT 0, sealed bigint NOT NULL DEFAULT 0, called text NOT NULL DEFAULT '',"
        " is_deleted bool NOT NULL DEFAULT false) WITH (fillfactor = 20)",
        # A row for each record batch, never updated. The head is the header of the batch, with offset and epoch.
        "CREATE TABLE pbatch (log_id int NOT NULL, base_offset bigint NOT NULL, last_offset bigint NOT NULL,"
        " leader_epoch int NOT NULL, max_ts bigint NOT NULL, head bytea NOT NULL, body bytea NOT NULL,"
        " PRIMARY KEY (log_id, base_offset)) PARTITION BY HASH (log_id)",
        *_batch_tables(),
        "CREATE TABLE pepoch (log_id int, epoch int, start_offset bigint NOT NULL, PRIMARY KEY (log_id, epoch))",
        "CREATE TABLE psnap (log_id int PRIMARY KEY, upto bigint NOT NULL, epoch int NOT NULL, state bytea NOT NULL)",
        "CREATE TABLE audit (at timestamptz NOT NULL DEFAULT clock_timestamp(), log_id int NOT NULL,"
        " epoch int NOT NULL, node_id int NOT NULL, incarnation bigint NOT NULL, why text NOT NULL DEFAULT '')",
        # Wakes nodes that would see it with their next beat anyway; nothing is safe by it.
        "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_notify('ottla/' || TG_TABLE_SCHEMA, ''); RETURN NULL; END $$",
        *(
            f"CREATE TRIGGER tell AFTER INSERT OR UPDATE OF {columns} ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION tell()"
            for table, columns in _TOLD.items()
        ),
    ),
)
GRANTS: Final = (
    'GRANT USAGE ON SCHEMA "{0}" TO "{1}"',
    'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{0}" TO "{1}"',
)
"""What the role of nodes needs; {0} is the schema, and {1} the role."""
OLDEST_CODE: Final = 1
"""What code must know at least, in migrations, to work with the newest schema."""
