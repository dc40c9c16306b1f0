"""kafka-configs and the tools that look at the cluster: API versions, features, log directories, elections, moves."""

from __future__ import annotations

import json
import re

from tests.interop.kafka_tools.cases import Stage, case, same, table
from tests.interop.suite import NotHere


def node_ids(stage: Stage) -> dict[str, str]:
    """Address and id of each broker."""
    return dict(re.findall(r"^(\S+) \(id: (\d+) ", stage.tools("broker-api-versions").out, re.MULTILINE))


def node_id(stage: Stage) -> str:
    """The id of one of the brokers."""
    return next(iter(node_ids(stage).values()))


def configs(stage: Stage, kind: str, name: str, *more: str) -> dict[str, str]:
    """The configs that describe prints, by name."""
    where = ["--entity-default"] if name == "<default>" else ["--entity-name", name]
    printed = stage.tools("configs", "--describe", "--entity-type", kind, *where, *more)
    return dict(re.findall(r"^  ([a-z.]+)=(.*?) sensitive=", printed.out, re.MULTILINE))


def alter(stage: Stage, kind: str, name: str, *changes: str) -> str:
    where = ["--entity-default"] if name == "<default>" else ["--entity-name", name]
    return stage.tools("configs", "--alter", "--entity-type", kind, *where, *changes).out.strip()


@case
def configs_of_topics(stage: Stage) -> None:
    stage.topic("configured", 1)
    done = "Completed updating config for topic configured."
    change = "retention.ms=1000,cleanup.policy=[compact,delete]"
    same(alter(stage, "topics", "configured", "--add-config", change), done)
    found = configs(stage, "topics", "configured")
    same((found["retention.ms"], found["cleanup.policy"]), ("1000", "compact,delete"))
    same(alter(stage, "topics", "configured", "--delete-config", "retention.ms,cleanup.policy"), done)
    found = configs(stage, "topics", "configured", "--all")
    same(
        (found["retention.ms"], found["cleanup.policy"], found["max.message.bytes"]), ("604800000", "delete", "1048588")
    )
    printed = stage.tools("configs", "--describe", "--entity-type", "topics")
    assert "Dynamic configs for topic configured are:" in printed.out, printed
    printed = stage.tools("configs", "--alter", "--entity-type", "topics", "--entity-name", "configured",
                          "--add-config", "no.such.config=1", code=1)  # fmt: skip
    assert "InvalidConfigurationException" in printed.err, printed
    path = stage.file("more.properties", "retention.bytes=77\n")
    alter(stage, "topics", "configured", "--add-config-file", str(path))
    same(configs(stage, "topics", "configured")["retention.bytes"], "77")


@case
def configs_of_brokers(stage: Stage) -> None:
    node = node_id(stage)
    alter(stage, "brokers", node, "--add-config", "log.retention.ms=99999999")
    same(configs(stage, "brokers", node)["log.retention.ms"], "99999999")
    alter(stage, "brokers", node, "--delete-config", "log.retention.ms")
    assert "log.retention.ms" not in configs(stage, "brokers", node)
    alter(stage, "brokers", "<default>", "--add-config", "message.max.bytes=1234567")
    same(configs(stage, "brokers", "<default>")["message.max.bytes"], "1234567")
    same(configs(stage, "brokers", node, "--all")["message.max.bytes"], "1234567")
    alter(stage, "brokers", "<default>", "--delete-config", "message.max.bytes")
    assert "message.max.bytes" not in configs(stage, "brokers", "<default>")


@case
def configs_of_clients(stage: Stage) -> None:
    alter(stage, "clients", "<default>", "--add-config", "consumer_byte_rate=4096")
    alter(stage, "clients", "limited", "--add-config", "producer_byte_rate=1048576,request_percentage=200")
    printed = stage.tools("configs", "--describe", "--entity-type", "clients", "--entity-name", "limited")
    assert "client-id 'limited' are" in printed.out and "producer_byte_rate=1048576.0" in printed.out, printed
    printed = stage.tools("configs", "--describe", "--entity-type", "clients")
    same(len(printed.lines), 2, printed)
    assert "the default client-id are consumer_byte_rate=4096.0" in printed.out, printed
    alter(stage, "clients", "limited", "--delete-config", "producer_byte_rate,request_percentage")
    alter(stage, "clients", "<default>", "--delete-config", "consumer_byte_rate")
    same(stage.tools("configs", "--describe", "--entity-type", "clients").lines, [])


@case
def configs_of_users(stage: Stage) -> None:
    alter(stage, "users", "u", "--add-config", "consumer_byte_rate=2048")
    printed = stage.tools("configs", "--describe", "--entity-type", "users")
    assert "user-principal 'u' are consumer_byte_rate=2048.0" in printed.out, printed
    alter(stage, "users", "u", "--delete-config", "consumer_byte_rate")
    alter(stage, "users", "s", "--add-config", "SCRAM-SHA-256=[iterations=4096,password=secret]")
    printed = stage.tools("configs", "--describe", "--entity-type", "users", "--entity-name", "s")
    assert "SCRAM-SHA-256=iterations=4096" in printed.out, printed
    alter(stage, "users", "s", "--delete-config", "SCRAM-SHA-256")
    printed = stage.tools("configs", "--describe", "--entity-type", "users")
    assert "SCRAM" not in printed.out, printed


@case
def configs_of_groups(stage: Stage) -> None:
    alter(stage, "groups", "tuned", "--add-config", "consumer.session.timeout.ms=50000")
    same(configs(stage, "groups", "tuned")["consumer.session.timeout.ms"], "50000")
    alter(stage, "groups", "tuned", "--delete-config", "consumer.session.timeout.ms")
    assert "consumer.session.timeout.ms" not in configs(stage, "groups", "tuned")


@case
def acls(stage: Stage) -> None:
    rule = ["--allow-principal", "User:reader", "--operation", "Read", "--topic", "guarded"]
    added = stage.tools("acls", "--add", *rule, code=None)
    if "No Authorizer is configured" in added.out + added.err:
        raise NotHere("the broker has no authorizer")
    assert "(principal=User:reader, host=*, operation=READ, permissionType=ALLOW)" in added.out, added
    listed = stage.tools("acls", "--list", "--topic", "guarded")
    assert "resourceType=TOPIC, name=guarded, patternType=LITERAL" in listed.out, listed
    assert "principal=User:reader" in listed.out, listed
    stage.tools("acls", "--remove", "--force", *rule)
    assert "User:reader" not in stage.tools("acls", "--list", "--topic", "guarded").out


@case
def broker_api_versions(stage: Stage) -> None:
    printed = stage.tools("broker-api-versions")
    same(set(re.findall(r"^(\S+) \(id: ", printed.out, re.MULTILINE)), {*stage.addresses}, printed)
    ranges = dict(re.findall(r"^\t(\w+)\(\d+\): (.+?)(?: \[usable: \d+\])?,?$", printed.out, re.MULTILINE))
    same(ranges["Produce"], "0 to 13")
    for name, versions in (("Fetch", "4 to 18"), ("Metadata", "0 to 13"), ("JoinGroup", "0 to 9"), ("EndTxn", "0 to 5"),
                           ("OffsetCommit", "2 to 10"), ("OffsetFetch", "1 to 10")):  # fmt: skip
        same(ranges[name], versions, printed)


@case
def cluster_id(stage: Stage) -> None:
    printed = stage.tools.bare("cluster", "cluster-id", "--bootstrap-server", stage.bootstrap)
    assert re.fullmatch(r"Cluster ID: [A-Za-z0-9_-]{22}", printed.lines[0]), printed
    printed = stage.tools.bare("cluster", "list-endpoints", "--bootstrap-server", stage.bootstrap)
    wanted = [[node_id, *address.split(":")] for address, node_id in node_ids(stage).items()]
    same(sorted(table(printed, "ID", "HOST", "PORT")), sorted(wanted), printed)


@case
def features(stage: Stage) -> None:
    printed = stage.tools.bare("features", "--bootstrap-server", stage.bootstrap, "describe")
    line = next(line for line in printed.lines if line.startswith("Feature: transaction.version"))
    assert re.search(r"SupportedMaxVersion: 2\s+FinalizedVersionLevel: 2\s", line), printed
    change = ("features", "--bootstrap-server", stage.bootstrap)
    printed = stage.tools.bare(*change, "upgrade", "--feature", "transaction.version=2")
    assert "transaction.version was upgraded to 2." in printed.out, printed
    printed = stage.tools.bare(*change, "downgrade", "--feature", "transaction.version=1", code=1)
    assert "'transaction.version' stays at level 2" in str(printed), printed


@case
def leader_election(stage: Stage) -> None:
    stage.topic("elected", 1)
    printed = stage.tools("leader-election", "--election-type", "PREFERRED", "--topic", "elected", "--partition", 0)
    same(printed.lines, ["Valid replica already elected for partitions elected-0"], printed)
    path = stage.file("elect.json", json.dumps({"partitions": [{"topic": "elected", "partition": 0}]}))
    printed = stage.tools("leader-election", "--election-type", "UNCLEAN", "--path-to-json-file", path)
    same(printed.lines, ["Valid replica already elected for partitions elected-0"], printed)
    stage.tools("leader-election", "--election-type", "PREFERRED", "--all-topic-partitions")


@case
def log_dirs(stage: Stage) -> None:
    stage.topic("sized", 2)
    stage.produce("sized", ["x" * 1000])
    nodes = [*node_ids(stage).values()]
    printed = stage.tools("log-dirs", "--describe", "--topic-list", "sized", "--broker-list", ",".join(nodes))
    brokers = json.loads(printed.lines[-1])["brokers"]
    same(sorted(str(broker["broker"]) for broker in brokers), sorted(nodes), printed)
    directories = [directory for broker in brokers for directory in broker["logDirs"]]
    same([directory["error"] for directory in directories], [None] * len(nodes), printed)
    parts = [part for directory in directories for part in directory["partitions"]]
    same(sorted(part["partition"] for part in parts), ["sized-0", "sized-1"], printed)
    assert sum(part["size"] for part in parts) > 1000, printed
    same({part["isFuture"] for part in parts}, {False}, printed)


@case
def reassign_partitions(stage: Stage) -> None:
    stage.topic("moved", 2)
    nodes = ",".join(node_ids(stage).values())
    same(stage.tools("reassign-partitions", "--list").lines, ["No partition reassignments found."])
    topics = stage.file("move.json", json.dumps({"topics": [{"topic": "moved"}], "version": 1}))
    printed = stage.tools(
        "reassign-partitions", "--generate", "--topics-to-move-json-file", topics, "--broker-list", nodes
    )
    now = next(line for line in printed.lines if line.startswith("{"))  # a node keeps what is at home with it
    plan = stage.file("plan.json", now)
    printed = stage.tools("reassign-partitions", "--execute", "--reassignment-json-file", plan)
    assert "Successfully started partition reassignments for moved-0,moved-1" in printed.out, printed
    printed = stage.tools("reassign-partitions", "--verify", "--reassignment-json-file", plan)
    for partition in (0, 1):
        assert f"Reassignment of partition moved-{partition} is completed." in printed.out, printed


@case
def client_metrics(stage: Stage) -> None:
    same(stage.tools("client-metrics", "--list").lines, [])
