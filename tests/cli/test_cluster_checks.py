"""The checks of `ottla cluster doctor`: what is said of a server, without one."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.storage.postgres.facts import Facts, NodeFacts, facts_of
from ottla.cli.cluster_checks import Way, findings_of
from ottla.cli.doctor_checks import FAIL, OK, WARN, Finding

GOOD = Facts(
    version="15.18",
    has_fsync=True,
    writes_full_pages=True,
    synchronous_commit="on",
    synchronous_standby_names="",
    standbys=0,
    replicates_below=False,
    max_wal_mib=1024,
    checkpoint_timeout_s=300,
    connections=97,
    taken=1,
    snapshot_s=12.0,
    sees_all=True,
    now_s=1_790_000_000.0,
    is_remote=False,
    is_encrypted=False,
)
HERE = Way(hosts=1, sslmode="", now_s=1_790_000_003.0, allows_loss=False)
LOCAL, ELSEWHERE = {"PLAINTEXT": ("localhost", 9092)}, {"PLAINTEXT": ("node-b", 9092)}


def found(check: str, facts: Facts = GOOD, way: Way = HERE, **own: Any) -> Finding:
    return next(one for one in findings_of(facts, way, **own) if one.check == check)


def test_of_a_good_server_all_is_well() -> None:
    findings = findings_of(GOOD, HERE)
    assert [one.verdict for one in findings] == [OK] * len(findings)
    assert findings[0].found == "PostgreSQL 15.18"


@pytest.mark.parametrize(
    ("check", "facts", "verdict", "said"),
    [
        ("durability", {"has_fsync": False}, FAIL, "fsync=off: a crash of the server loses records"),
        ("durability", {"synchronous_commit": "off"}, FAIL, "synchronous_commit=off, although"),
        ("durability", {"synchronous_commit": "remote_write"}, FAIL, "synchronous_commit=remote_write, although"),
        ("durability", {"synchronous_commit": "remote_apply"}, OK, "synchronous_commit=remote_apply"),
        ("durability", {"writes_full_pages": False}, WARN, "full_page_writes=off"),
        ("standbys", {"standbys": 1}, WARN, "a failover can lose acknowledged records"),
        ("standbys", {"standbys": 1, "replicates_below": True}, OK, "replicates below"),
        ("standbys", {"standbys": 1, "synchronous_standby_names": "ANY 1 (b)"}, OK, "=ANY 1 (b)"),
        ("standbys", {"synchronous_standby_names": "b", "sees_all": False}, OK, "GRANT pg_monitor"),
        ("recovery", {"max_wal_mib": 4096}, WARN, "max_wal_size=4,096 MB"),
        ("recovery", {"checkpoint_timeout_s": 900}, WARN, "checkpoint_timeout=900 s"),
        ("connections", {"taken": 92}, WARN, "5 of 97 for 1 node, which need 6"),
        ("snapshots", {"snapshot_s": 7261.0}, WARN, "the oldest is 121 min 1 s old"),
        ("snapshots", {"sees_all": False}, OK, "none of this role is old"),
        ("clock", {"now_s": GOOD.now_s - 30}, WARN, "are 33.0 s apart"),
        ("clock", {"now_s": GOOD.now_s + 60}, WARN, "are 57.0 s apart"),
        ("encryption", {"is_remote": True}, WARN, "nothing between this machine and the server is encrypted"),
        ("encryption", {"is_remote": True, "is_encrypted": True}, WARN, "TLS with sslmode=prefer"),
        ("tables", {"cluster_id": "c", "schema_version": 1, "schema_needs": 1}, OK, "those of cluster c, schema 1"),
        ("tables", {"cluster_id": "c", "schema_version": 9, "schema_needs": 9}, FAIL, "of a newer Ottla"),
        ("tables", {"cluster_id": "c", "schema_version": 9, "schema_needs": 1}, OK, "schema 9"),
        ("tables", {"cluster_id": "c", "schema_version": 0, "schema_needs": 0}, WARN, "this version has 1"),
    ],
)
def test_what_is_said_of_a_server(check: str, facts: dict[str, Any], verdict: str, said: str) -> None:
    finding = found(check, GOOD._replace(**facts))
    assert finding.verdict == verdict
    assert said in finding.found
    assert (finding.advice == "") == (verdict == OK)


def test_several_hosts_need_synchronous_standbys_or_somebody_who_accepts_the_loss() -> None:
    several = HERE._replace(hosts=2)
    refused = found("standbys", way=several)
    assert refused.verdict == FAIL and "the URL names 2 hosts" in refused.found
    assert "ottla.cluster.allow.lossy.failover=true" in refused.advice
    assert found("standbys", way=several._replace(allows_loss=True)).verdict == WARN
    assert found("standbys", GOOD._replace(synchronous_standby_names="b"), several).verdict == OK
    assert found("standbys", GOOD._replace(replicates_below=True), several).verdict == OK


@pytest.mark.parametrize(("sslmode", "verdict"), [("verify-full", OK), ("verify-ca", WARN), (None, OK)])
def test_only_the_whole_check_of_a_certificate_is_enough(sslmode: str | None, verdict: str) -> None:
    far = GOOD._replace(is_remote=True, is_encrypted=True)
    assert found("encryption", far, HERE._replace(sslmode=sslmode)).verdict == verdict


def test_every_node_needs_its_connections() -> None:
    three = [NodeFacts(node_id, None, "0.2.0", node_id < 3, {}) for node_id in (1, 2, 3)]
    assert found("connections", GOOD._replace(nodes=three, taken=79)).verdict == OK
    assert found("connections", GOOD._replace(nodes=three, taken=80)).found == "17 of 97 for 3 nodes, which need 18"


@pytest.mark.parametrize(
    ("rows", "told", "said"),
    [
        ([LOCAL, LOCAL], [], "2 nodes, 2 up, of Ottla 0.2.0"),
        ([LOCAL, ELSEWHERE], [], "clients of node 1 are told loopback"),
        ([ELSEWHERE, ELSEWHERE], [("127.0.0.1", 9092)], "clients of this node are told loopback"),
        ([LOCAL, LOCAL], [("node-c", 9092)], "clients of node 1, node 2 are told loopback"),
        ([LOCAL, {}], [("127.0.0.1", 9092)], "2 nodes, 2 up"),
    ],
)
def test_loopback_is_for_nodes_of_one_machine(rows: list[Any], told: list[tuple[str, int]], said: str) -> None:
    nodes = [NodeFacts(number + 1, f"n{number}", "0.2.0", True, endpoints) for number, endpoints in enumerate(rows)]
    finding = found("nodes", GOOD._replace(nodes=nodes), told=told)
    assert finding.found.startswith(said)
    assert finding.verdict == (WARN if "loopback" in said else OK)


@pytest.mark.parametrize("me", [1, "a"])
def test_where_a_node_was_in_its_last_life_does_not_matter(me: int | str) -> None:
    nodes = [NodeFacts(1, "a", "0.2.0", True, LOCAL), NodeFacts(2, None, "0.2.0", True, ELSEWHERE)]
    assert found("nodes", GOOD._replace(nodes=nodes), me=me, told=[("node-a", 9092)]).verdict == OK
    assert found("nodes", GOOD._replace(nodes=nodes), me=2, told=[("node-b", 9092)]).verdict == WARN


def test_a_node_that_has_ended_misleads_nobody() -> None:
    nodes = [NodeFacts(1, "a", "0.2.0", True, ELSEWHERE), NodeFacts(2, None, "0.1.0", False, LOCAL)]
    assert found("nodes", GOOD._replace(nodes=nodes)).found == "2 nodes, 1 up, of Ottla 0.2.0"


def test_facts_are_made_of_what_two_queries_say() -> None:
    rows = '[[1, "a", "0.2.0", true, {"PLAINTEXT": ["a", 9092]}], [2, null, "", false, {}]]'
    facts = facts_of(GOOD[:16], ("c", 1, 1, rows))
    assert facts == GOOD._replace(
        cluster_id="c",
        schema_version=1,
        schema_needs=1,
        nodes=[NodeFacts(1, "a", "0.2.0", True, {"PLAINTEXT": ("a", 9092)}), NodeFacts(2, None, "", False, {})],
    )
    assert facts_of(GOOD[:16], None) == GOOD
