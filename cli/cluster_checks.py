"""The checks of `ottla cluster doctor`, and of the start of a node: is this a database that keeps what it is told?

Each is a pure function of what the server says. Its name is that of the finding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.broker.storage.postgres import schema
from ottla.broker.storage.postgres.connections import DEADLINES_MS
from ottla.broker.storage.postgres.facts import Facts
from ottla.cli.doctor_checks import FAIL, OK, WARN, Finding
from ottla.cli.output import count_of, duration

CONNECTIONS = len(DEADLINES_MS)
"""Those of one node."""
MOST_WAL_MIB = 1024
LONGEST_CHECKPOINT_S = 300
LONGEST_SNAPSHOT_S = 3600
FARTHEST_CLOCK_S = 30


class Way(NamedTuple):
    """How a server was reached.

    Attributes:
        hosts: so many does the URL name.
        sslmode: what URL or environment say of it; None where it stands elsewhere.
        now_s: what this machine takes the time for.
        allows_loss: somebody accepts that a failover may lose records.
    """

    hosts: int
    sslmode: str | None
    now_s: float
    allows_loss: bool


def findings_of(
    facts: Facts, way: Way, me: int | str | None = None, told: Sequence[tuple[str, int]] = ()
) -> list[Finding]:
    """All that is to be said of a server.

    Args:
        me: the node that is about to start, by its id or its name.
        told: the addresses that its clients are told.
    """
    findings = [
        Finding("server", OK, f"PostgreSQL {facts.version}"),
        durability(facts),
        standbys(facts, way),
        recovery(facts),
        connections(facts),
        snapshots(facts),
        clock(facts, way),
        encryption(facts, way),
        tables(facts),
    ]
    others = [node for node in facts.nodes if node.is_up and me not in (node.node_id, node.name)]
    addresses = {f"node {node.node_id}": [*node.endpoints.values()] for node in others} | {"this node": [*told]}
    return findings + ([nodes(facts, addresses)] if facts.nodes else [])


def durability(facts: Facts) -> Finding:
    """Whether a commit is on a disk, and whole pages are after a crash."""
    if not facts.has_fsync:
        return Finding("durability", FAIL, "fsync=off: a crash of the server loses records", "Set fsync=on.")
    if facts.synchronous_commit not in ("on", "remote_apply"):
        words = f"synchronous_commit={facts.synchronous_commit}, although `on` was asked for"
        return Finding("durability", FAIL, words, "Let the role of the nodes set it: a commit must not be lost.")
    if not facts.writes_full_pages:
        advice = "Set full_page_writes=on, unless the file system copies on write, as ZFS does."
        return Finding("durability", WARN, "full_page_writes=off: a crash of the machine may damage tables", advice)
    return Finding("durability", OK, f"fsync=on, full_page_writes=on, synchronous_commit={facts.synchronous_commit}")


def standbys(facts: Facts, way: Way) -> Finding:
    """Whether a server that takes over has what was acknowledged."""
    names = facts.synchronous_standby_names
    if facts.replicates_below:
        return Finding("standbys", OK, "this server replicates below its tables")
    if names:
        seen = "" if facts.sees_all else "; GRANT pg_monitor to the role to let it see whether they follow"
        return Finding("standbys", OK, f"synchronous_standby_names={names}{seen}")
    words = "a failover can lose acknowledged records: synchronous_standby_names is empty"
    advice = "Set synchronous_standby_names to ANY 1 (…), with the standbys that may take over."
    if way.hosts > 1 and not way.allows_loss:
        accept = "Or accept the loss: ottla.cluster.allow.lossy.failover=true."
        return Finding("standbys", FAIL, f"{words}, and the URL names {way.hosts} hosts", f"{advice} {accept}")
    if way.hosts > 1 or facts.standbys:
        return Finding("standbys", WARN, words, advice)
    return Finding("standbys", OK, "none: what is acknowledged is as safe as this server")


def recovery(facts: Facts) -> Finding:
    """Whether a server that crashed is soon back."""
    found = f"max_wal_size={facts.max_wal_mib:,} MB, checkpoint_timeout={facts.checkpoint_timeout_s} s"
    if facts.max_wal_mib > MOST_WAL_MIB or facts.checkpoint_timeout_s > LONGEST_CHECKPOINT_S:
        advice = "Clients wait while a server that crashed reads its log: at most 1 GB and 5 min keep that short."
        return Finding("recovery", WARN, found, advice)
    return Finding("recovery", OK, found)


def connections(facts: Facts) -> Finding:
    """Whether all nodes find the connections that they need."""
    wanted = CONNECTIONS * max(1, len(facts.nodes))
    free = facts.connections - facts.taken
    found = f"{free} of {facts.connections} for {count_of(max(1, len(facts.nodes)), 'node')}, which need {wanted}"
    if free < wanted:
        return Finding("connections", WARN, found, f"Raise max_connections: a node has {CONNECTIONS}.")
    return Finding("connections", OK, found)


def snapshots(facts: Facts) -> Finding:
    """Whether the space of deleted rows can be used again."""
    whose = "" if facts.sees_all else " of this role"
    if facts.snapshot_s > LONGEST_SNAPSHOT_S:
        words = f"the oldest{whose} is {duration(facts.snapshot_s)} old: until it ends, deleted rows keep their space"
        return Finding("snapshots", WARN, words, "Look for sessions with an old xact_start in pg_stat_activity.")
    return Finding("snapshots", OK, f"none{whose} is old")


def clock(facts: Facts, way: Way) -> Finding:
    """Timestamps and retention go by the clocks of the machines; leases do not."""
    apart_s = abs(facts.now_s - way.now_s)
    if apart_s > FARTHEST_CLOCK_S:
        words = f"that of the server and that of this machine are {duration(apart_s)} apart"
        advice = "Run chrony, ntpd or systemd-timesyncd on both: timestamps of records and retention go by them."
        return Finding("clock", WARN, words, advice)
    return Finding("clock", OK, "as that of this machine")


def encryption(facts: Facts, way: Way) -> Finding:
    """Whether others can read along, or be taken for the server."""
    if not facts.is_remote:
        return Finding("encryption", OK, "the server is on this machine")
    advice = "Add sslmode=verify-full to the URL, and sslrootcert=FILE with the authority of the server's certificate."
    if not facts.is_encrypted:
        return Finding("encryption", WARN, "nothing between this machine and the server is encrypted", advice)
    if way.sslmode is not None and way.sslmode != "verify-full":
        words = f"TLS with sslmode={way.sslmode or 'prefer'}: whoever is in between may be taken for the server"
        return Finding("encryption", WARN, words, advice)
    return Finding("encryption", OK, "TLS")


def tables(facts: Facts) -> Finding:
    """Whether this version works with the tables that are there."""
    known = len(schema.MIGRATIONS)
    if not facts.cluster_id:
        return Finding("tables", OK, "there are none yet: the first node makes them, or `ottla cluster migrate`")
    words = f"those of cluster {facts.cluster_id}, schema {facts.schema_version}"
    if facts.schema_needs > known:
        return Finding("tables", FAIL, f"{words}: of a newer Ottla", f"Upgrade this one: it knows schema {known}.")
    if facts.schema_version < known:
        advice = "The next node adds what is missing if its role may; else `ottla cluster migrate` does."
        return Finding("tables", WARN, f"{words}; this version has {known}", advice)
    return Finding("tables", OK, words)


def nodes(facts: Facts, addresses: Mapping[str, Sequence[tuple[str, int]]]) -> Finding:
    """Whether clients can reach all nodes that are up.

    Args:
        addresses: what clients are told of each.
    """
    versions = sorted({node.version for node in facts.nodes if node.is_up})
    found = f"{count_of(len(facts.nodes), 'node')}, {sum(node.is_up for node in facts.nodes)} up"
    local = [who for who, told in addresses.items() if any(map(_is_loopback, told))]
    if local and any(told and not any(map(_is_loopback, told)) for told in addresses.values()):
        words = f"clients of {', '.join(local)} are told loopback, and other nodes are elsewhere"
        advice = "Say --listen or --advertise with a host that clients on all machines reach."
        return Finding("nodes", WARN, words, advice)
    return Finding("nodes", OK, f"{found}, of Ottla {' and '.join(versions)}" if versions else found)


def _is_loopback(address: tuple[str, int]) -> bool:
    host, _ = address
    return host in ("localhost", "::1") or host.startswith("127.")
