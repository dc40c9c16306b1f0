"""The tools that show and change groups of the consumer protocol (KIP-848), and a console consumer that is in one."""

from __future__ import annotations

import re

from tests.interop.kafka_tools.cases import Stage, case, same, table, until
from tests.interop.kafka_tools.cluster import alter, configs

TOOL = "consumer-groups"
PROTOCOL = "group.protocol=consumer"
SESSION = "consumer.session.timeout.ms"


@case
def consumer_protocol_list(stage: Stage) -> None:
    topic = stage.topic("modern-listed")
    stage.member("modern-listed-group", topic, PROTOCOL)
    stage.member("classic-listed-group", topic)
    for kind, (there, absent) in {
        "consumer": ("modern-listed-group", "classic-listed-group"),
        "classic": ("classic-listed-group", "modern-listed-group"),
    }.items():
        lines = stage.tools(TOOL, "--list", "--type", kind).lines
        assert any(there in line for line in lines) and not any(absent in line for line in lines), (kind, lines)
    rows = table(stage.tools(TOOL, "--list", "--type", "--state"), "GROUP", "TYPE", "STATE")
    assert ["modern-listed-group", "Consumer", "Stable"] in rows, rows
    assert ["classic-listed-group", "Classic", "Stable"] in rows, rows
    rows = table(stage.tools("groups", "--list", "--group-type", "consumer"), "GROUP", "TYPE", "PROTOCOL")
    assert ["modern-listed-group", "Consumer", "consumer"] in rows, rows
    stage.members_leave()


@case
def consumer_protocol_describe(stage: Stage) -> None:
    topic, group = stage.topic("modern-described", 3), "modern-described-group"
    stage.produce(topic, range(6))
    stage.member(group, topic, PROTOCOL, "client.id=plain")
    stage.member(group, topic, PROTOCOL, "client.id=static", "group.instance.id=fixed")
    rows: list[list[str]] = []

    def settled() -> bool:
        printed = stage.tools(TOOL, "--describe", "--group", group, "--members", "--verbose", code=None)
        # Behind the client: how many partitions, epoch, assignment, and the same of the target.
        rows[:] = [line.split()[-6:] for line in printed.lines if line.startswith(group)]
        return sorted(row[1] for row in rows) == ["1", "2"] and all(row[2:4] == row[4:] for row in rows)

    until("each has partitions", settled)
    same({row[0] for row in rows}, {"plain", "static"}, rows)
    epochs = {row[2] for row in rows}
    printed = stage.tools(TOOL, "--describe", "--group", group, "--state", "--verbose")
    columns = ("ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS")
    same(table(printed, *columns), [["uniform", "Stable", *epochs, *epochs, "2"]], printed)
    printed = stage.tools(TOOL, "--describe", "--group", group, "--offsets")
    same({row[0] for row in table(printed, "CLIENT-ID")}, {"plain", "static"}, printed)
    stage.members_leave()
    # The static one is away, and still a member.
    printed = stage.tools(TOOL, "--describe", "--group", group, "--members", "--verbose")
    assert re.search(rf"^{group} +\S+ +fixed +/127.0.0.1 +static +\d +-2 ", printed.out, re.MULTILINE), printed
    assert "plain" not in printed.out, printed


@case
def consumer_protocol_console_consumer(stage: Stage) -> None:
    topic, group = stage.topic("modern-console", 2), "modern-console-group"
    stage.produce(topic, range(10))
    arguments = ["--group", group, "--command-property", PROTOCOL]
    same(sorted(stage.consume(topic, 10, *arguments)), sorted(map(str, range(10))))
    stage.produce(topic, ["later"])
    same(stage.consume(topic, 1, *arguments), ["later"])
    rows = table(stage.tools(TOOL, "--list", "--type", "consumer", "--state"), "GROUP", "TYPE", "STATE")
    assert [group, "Consumer", "Empty"] in rows, rows
    pattern = stage.tools("console-consumer", "--include", "modern-cons.*", "--from-beginning", "--max-messages", 11,
                          "--timeout-ms", 10000, *arguments[2:])  # fmt: skip
    same(len(pattern.lines), 11, pattern)


@case
def consumer_protocol_reset_and_delete(stage: Stage) -> None:
    topic, group = stage.topic("modern-reset", 1), "modern-reset-group"
    stage.produce(topic, range(5))
    stage.member(group, topic, PROTOCOL)
    reset = (TOOL, "--reset-offsets", "--group", group, "--topic", topic, "--to-offset", 2, "--execute")
    printed = stage.tools(*reset, code=None)
    assert "the current state is Stable" in printed.out + printed.err, printed
    printed = stage.tools(TOOL, "--delete", "--group", group, code=None)
    assert "GroupNotEmptyException" in printed.out, printed
    printed = stage.tools(TOOL, "--delete-offsets", "--group", group, "--topic", topic, code=None)
    assert "GroupSubscribedToTopicException" in printed.out, printed
    stage.members_leave()
    same(table(stage.tools(*reset), "PARTITION", "NEW-OFFSET"), [["0", "2"]])
    rows = table(stage.tools(TOOL, "--describe", "--group", group), "CURRENT-OFFSET", "LAG")
    same(rows, [["2", "3"]])
    stage.tools(TOOL, "--delete-offsets", "--group", group, "--topic", topic)
    printed = stage.tools(TOOL, "--delete", "--group", group)
    assert re.search(r"Deletion of requested consumer groups \(.*\) was successful", printed.out), printed
    assert group not in stage.tools(TOOL, "--list").lines


@case
def consumer_protocol_configs_of_a_group(stage: Stage) -> None:
    """What is set for a group is what its members are told."""
    topic, group = stage.topic("modern-tuned"), "modern-tuned-group"
    alter(stage, "groups", group, "--add-config", f"{SESSION}=50000,consumer.heartbeat.interval.ms=300")
    found = configs(stage, "groups", group)
    same((found[SESSION], found["consumer.heartbeat.interval.ms"]), ("50000", "300"))
    stage.member(group, topic, PROTOCOL)
    printed = stage.tools("configs", "--alter", "--entity-type", "groups", "--entity-name", group, "--add-config",
                          f"{SESSION}=1", code=1)  # fmt: skip
    assert "InvalidConfigurationException" in printed.err, printed
    stage.members_leave()
    alter(stage, "groups", group, "--delete-config", SESSION)
    assert SESSION not in configs(stage, "groups", group)


@case
def consumer_protocol_validate_regex(stage: Stage) -> None:
    printed = stage.tools(TOOL, "--validate-regex", "a(", code=None)
    assert "invalid" in printed.out + printed.err, printed
