"""kafka-consumer-groups with every form of a reset, and kafka-groups."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from tests.interop.kafka_tools.cases import Stage, case, same, table, until

TOOL = "consumer-groups"


def committed(stage: Stage, group: str) -> dict[int, str]:
    """The committed offsets of the group's one topic, as describe shows them."""
    rows = table(stage.tools(TOOL, "--describe", "--group", group), "PARTITION", "CURRENT-OFFSET")
    return {int(partition): offset for partition, offset in rows}


def reset(stage: Stage, group: str, *arguments: object, mode: str = "--execute") -> dict[int, int]:
    """Reset and give the new offsets by partition, as the tool prints them and, if executed, as they are."""
    printed = stage.tools(TOOL, "--reset-offsets", "--group", group, *arguments, mode)
    found = {int(partition): int(offset) for partition, offset in table(printed, "PARTITION", "NEW-OFFSET")}
    if mode == "--execute":
        after = committed(stage, group)
        same({partition: after[partition] for partition in found}, {p: str(o) for p, o in found.items()}, printed)
    return found


def ten_in_two(stage: Stage, name: str) -> tuple[str, str]:
    """A topic with two partitions of five records each, and a group that has read them."""
    stage.topic(name, 2)
    for partition in (0, 1):
        # "1" and "0" hash to partitions 0 and 1 of two.
        key = "1" if partition == 0 else "0"
        lines = "".join(f"{key}:{value}\n" for value in range(5))
        stage.tools("console-producer", "--topic", name, "--reader-property", "parse.key=true", "--reader-property",
                    "key.separator=:", stdin=lines)  # fmt: skip
    same(stage.offsets(name), {0: 5, 1: 5})
    same(len(stage.consume(name, 10, "--group", f"{name}-group")), 10)
    return name, f"{name}-group"


@case
def groups_list(stage: Stage) -> None:
    stage.topic("listed")
    stage.produce("listed", range(1))
    stage.consume("listed", 1, "--group", "listed-empty")
    stage.member("listed-stable", "listed")
    assert {"listed-empty", "listed-stable"} <= set(stage.tools(TOOL, "--list").lines)
    states = dict(table(stage.tools(TOOL, "--list", "--state"), "GROUP", "STATE"))
    same((states["listed-empty"], states["listed-stable"]), ("Empty", "Stable"))
    types = dict(table(stage.tools(TOOL, "--list", "--type"), "GROUP", "TYPE"))
    same(types["listed-stable"], "Classic")
    stable = dict(table(stage.tools(TOOL, "--list", "--state", "Stable"), "GROUP", "STATE"))
    assert "listed-stable" in stable and "listed-empty" not in stable, stable
    classic = dict(table(stage.tools(TOOL, "--list", "--type", "Classic"), "GROUP", "TYPE"))
    assert "listed-stable" in classic, classic
    rows = table(
        stage.tools.bare("groups", "--bootstrap-server", stage.bootstrap, "--list"), "GROUP", "TYPE", "PROTOCOL"
    )
    assert ["listed-stable", "Classic", "consumer"] in rows, rows
    stage.members_leave()


@case
def groups_describe_offsets(stage: Stage) -> None:
    topic, group = ten_in_two(stage, "described")
    stage.produce(topic, range(3))
    printed = stage.tools(TOOL, "--describe", "--group", group)
    assert f"Consumer group '{group}' has no active members." in printed.err, printed
    rows = table(printed, "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID")
    same([row[:4] + row[6:] for row in rows], [[group, topic, p, "5", "-"] for p in ("0", "1")], printed)
    same(sum(int(row[5]) for row in rows), 3, printed)
    verbose = table(stage.tools(TOOL, "--describe", "--group", group, "--verbose"), "PARTITION", "LEADER-EPOCH")
    same(verbose, [["0", "0"], ["1", "0"]])


@case
def groups_describe_members(stage: Stage) -> None:
    topic = stage.topic("membered", 3)
    group = "membered-group"
    stage.member(group, topic, "client.id=plain")
    stage.member(group, topic, "group.instance.id=fixed", "client.id=static")
    rows: list[list[str]] = []

    def settled() -> bool:
        printed = stage.tools(TOOL, "--describe", "--group", group, "--members", "--verbose", code=None)
        rows[:] = [line.split() for line in printed.lines if line.startswith(group)]
        return sorted(row[-5] for row in rows) == ["1", "2"]

    until("each has partitions", settled)
    by_client = {row[-6]: row for row in rows}
    assert re.fullmatch(r"plain-[0-9a-f-]{36}", by_client["plain"][1]), rows
    assert re.fullmatch(r"fixed-[0-9a-f-]{36}", by_client["static"][1]), rows
    same(by_client["static"][2], "fixed", rows)
    same({row[-7] for row in rows}, {"/127.0.0.1"}, rows)
    assert {row[-3] for row in rows} in ({"membered:0,1", "membered:2"}, {"membered:0", "membered:1,2"}), rows
    printed = stage.tools(TOOL, "--describe", "--group", group, "--offsets")
    same({row[0] for row in table(printed, "CLIENT-ID")}, {"plain", "static"}, printed)
    stage.members_leave()


@case
def groups_describe_state(stage: Stage) -> None:
    topic = stage.topic("stated", 2)
    stage.member("stated-group", topic, "client.id=one")
    printed = stage.tools(TOOL, "--describe", "--group", "stated-group", "--state")
    words = printed.rows[-1]
    same((words[0], words[3:]), ("stated-group", ["range", "Stable", "1"]), printed)
    assert words[1] in stage.addresses, printed
    stage.members_leave()
    printed = stage.tools(TOOL, "--describe", "--group", "stated-group", "--state", "--verbose")
    same(printed.rows[-1][4:], ["Empty", "-", "-", "0"], printed)
    everything = stage.tools(TOOL, "--describe", "--all-groups", "--state")
    assert "stated-group" in everything.out, everything
    absent = stage.tools(TOOL, "--describe", "--group", "no-such-group", code=None)
    assert "GroupIdNotFoundException" in absent.out + absent.err, absent


@case
def groups_reset_to_earliest_and_latest(stage: Stage) -> None:
    topic, group = ten_in_two(stage, "reset-ends")
    same(reset(stage, group, "--topic", topic, "--to-earliest", mode="--dry-run"), {0: 0, 1: 0})
    same(committed(stage, group), {0: "5", 1: "5"})
    same(reset(stage, group, "--topic", topic, "--to-earliest"), {0: 0, 1: 0})
    same(reset(stage, group, "--all-topics", "--to-latest"), {0: 5, 1: 5})
    same(len(stage.consume(topic, 10, "--group", "reset-other")), 10)
    same(reset(stage, group, "--topic", f"{topic}:1", "--to-earliest"), {1: 0})
    same(committed(stage, group), {0: "5", 1: "0"})


@case
def groups_reset_to_offset(stage: Stage) -> None:
    topic, group = ten_in_two(stage, "reset-offset")
    same(reset(stage, group, "--topic", topic, "--to-offset", 3), {0: 3, 1: 3})
    same(reset(stage, group, "--topic", topic, "--to-offset", 99), {0: 5, 1: 5})
    same(sorted(stage.consume(topic, 10, "--group", "reset-fresh")), sorted([*map(str, range(5))] * 2))
    same(reset(stage, group, "--topic", f"{topic}:0,1", "--to-offset", 2), {0: 2, 1: 2})
    same(len(stage.consume(topic, 6, "--group", group)), 6)


@case
def groups_reset_shift_by(stage: Stage) -> None:
    topic, group = ten_in_two(stage, "reset-shift")
    same(reset(stage, group, "--topic", topic, "--shift-by", -2), {0: 3, 1: 3})
    same(reset(stage, group, "--topic", topic, "--shift-by", 1), {0: 4, 1: 4})
    same(reset(stage, group, "--topic", topic, "--shift-by", 10), {0: 5, 1: 5})
    same(reset(stage, group, "--topic", topic, "--shift-by", -10), {0: 0, 1: 0})


@case
def groups_reset_to_datetime(stage: Stage) -> None:
    topic, group = ten_in_two(stage, "reset-datetime")
    time.sleep(0.05)
    between = datetime.now(UTC)
    time.sleep(0.05)
    stage.produce(topic, range(4))
    text = between.strftime("%Y-%m-%dT%H:%M:%S.") + f"{between.microsecond // 1000:03d}Z"
    ends = stage.offsets(topic)
    same(reset(stage, group, "--topic", topic, "--to-datetime", text), {0: 5, 1: 5})
    same(sum(ends.values()), 14)
    same(reset(stage, group, "--topic", topic, "--to-datetime", "2020-01-01T00:00:00.000"), {0: 0, 1: 0})
    later = datetime.fromtimestamp(time.time() + 3600, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    same(reset(stage, group, "--topic", topic, "--to-datetime", later), ends)


@case
def groups_reset_by_duration(stage: Stage) -> None:
    topic, group = ten_in_two(stage, "reset-duration")
    same(reset(stage, group, "--topic", topic, "--by-duration", "PT1H"), {0: 0, 1: 0})
    time.sleep(0.01)
    same(reset(stage, group, "--topic", topic, "--by-duration", "PT0S"), {0: 5, 1: 5})


@case
def groups_reset_to_current(stage: Stage) -> None:
    topic, group = ten_in_two(stage, "reset-current")
    stage.produce(topic, range(4))
    same(reset(stage, group, "--topic", topic, "--to-current"), {0: 5, 1: 5})


@case
def groups_reset_export_and_from_file(stage: Stage) -> None:
    topic, group = ten_in_two(stage, "reset-file")
    printed = stage.tools(TOOL, "--reset-offsets", "--group", group, "--topic", topic, "--to-offset", 2, "--dry-run",
                          "--export")  # fmt: skip
    same(sorted(printed.lines), [f"{topic},0,2", f"{topic},1,2"], printed)
    path = stage.file("plan.csv", printed.out)
    same(reset(stage, group, "--from-file", path), {0: 2, 1: 2})
    both = stage.file("both.csv", f"{group},{topic},0,1\nreset-another,{topic},1,4\n")
    stage.consume(topic, 10, "--group", "reset-another")
    stage.tools(TOOL, "--reset-offsets", "--group", group, "--group", "reset-another", "--from-file", both, "--execute")
    same(committed(stage, group), {0: "1", 1: "2"})
    same(committed(stage, "reset-another"), {0: "5", 1: "4"})


@case
def groups_reset_refused_while_active(stage: Stage) -> None:
    topic = stage.topic("reset-active", 1)
    stage.member("reset-active-group", topic)
    printed = stage.tools(TOOL, "--reset-offsets", "--group", "reset-active-group", "--topic", topic, "--to-earliest",
                          "--execute", code=None)  # fmt: skip
    assert "the current state is Stable" in printed.out + printed.err, printed
    stage.members_leave()


@case
def groups_reset_of_a_new_group(stage: Stage) -> None:
    topic = stage.topic("reset-new", 1)
    stage.produce(topic, range(3))
    same(reset(stage, "reset-unheard", "--topic", topic, "--to-offset", 1), {0: 1})
    same(stage.consume(topic, 2, "--group", "reset-unheard"), ["1", "2"])


@case
def groups_delete(stage: Stage) -> None:
    topic = stage.topic("deleting", 1)
    stage.produce(topic, range(1))
    for group in ("deleting-1", "deleting-2"):
        stage.consume(topic, 1, "--group", group)
    stage.member("deleting-3", topic)
    printed = stage.tools(TOOL, "--delete", "--group", "deleting-3", code=None)
    assert "GroupNotEmptyException" in printed.out, printed
    stage.members_leave()
    printed = stage.tools(TOOL, "--delete", "--group", "deleting-1", "--group", "deleting-2", "--group", "deleting-3")
    assert re.search(r"Deletion of requested consumer groups \(.*\) was successful", printed.out), printed
    assert not {"deleting-1", "deleting-2", "deleting-3"} & set(stage.tools(TOOL, "--list").lines)
    printed = stage.tools(TOOL, "--delete", "--group", "deleting-1", code=None)
    assert "GroupIdNotFoundException" in printed.out, printed


@case
def groups_delete_offsets(stage: Stage) -> None:
    topic, group = ten_in_two(stage, "forgotten")
    printed = stage.tools(TOOL, "--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert f"Request succeeded for deleting offsets from group {group}." in printed.out, printed
    same(table(printed, "TOPIC", "PARTITION", "STATUS"), [[topic, "0", "Successful"]], printed)
    same(committed(stage, group), {1: "5"})
    stage.member(group, topic)
    printed = stage.tools(TOOL, "--delete-offsets", "--group", group, "--topic", topic, code=None)
    assert "GroupSubscribedToTopicException" in printed.out, printed
    stage.members_leave()
    printed = stage.tools(TOOL, "--delete-offsets", "--group", group, "--topic", topic)
    same({row[0] for row in table(printed, "STATUS")}, {"Successful"}, printed)


@case
def groups_validate_regex(stage: Stage) -> None:
    printed = stage.tools(TOOL, "--validate-regex", "a.*")
    same(printed.lines, ["The regular expression `a.*` is valid."], printed)
