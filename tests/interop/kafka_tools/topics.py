"""kafka-topics, the console producer and consumer, get-offsets, delete-records."""

from __future__ import annotations

import json
import re
import time

from tests.interop.kafka_tools.cases import MAX_MESSAGES, Stage, case, same


def described(stage: Stage, topic: str) -> list[dict[str, str]]:
    """What describe prints of a topic: the fields of its first line, then of one for each partition."""
    lines = []
    for line in stage.tools("topics", "--describe", "--topic", topic).lines:
        fields = (field.partition(":") for field in line.strip().split("\t"))
        lines.append({name.strip(): value.strip() for name, _, value in fields})
    return lines


@case
def topics_create_list_describe(stage: Stage) -> None:
    printed = stage.tools(
        "topics", "--create", "--topic", "made", "--partitions", 3, "--replication-factor", 1,
        "--config", "retention.ms=7200000", "--config", "cleanup.policy=compact",
    )  # fmt: skip
    same(printed.lines, ["Created topic made."], printed)
    assert "made" in stage.tools("topics", "--list").lines
    assert "__consumer_offsets" not in stage.tools("topics", "--list", "--exclude-internal").lines
    same(stage.tools("topics", "--list", "--topic", "ma.e").lines, ["made"])
    first, *partitions = described(stage, "made")
    same(first["Topic"], "made")
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", first["TopicId"]), first
    same((first["PartitionCount"], first["ReplicationFactor"]), ("3", "1"))
    assert {"retention.ms=7200000", "cleanup.policy=compact"} <= set(first["Configs"].split(",")), first
    for number, partition in enumerate(partitions):
        leader = partition["Leader"]
        same((partition["Partition"], partition["Replicas"], partition["Isr"]), (str(number), leader, leader))
    same(len(partitions), 3)


@case
def topics_default_partitions(stage: Stage) -> None:
    stage.tools("topics", "--create", "--topic", "defaults")
    same(described(stage, "defaults")[0]["PartitionCount"], "1")


@case
def topics_alter(stage: Stage) -> None:
    stage.topic("altered", 2)
    same(stage.tools("topics", "--alter", "--topic", "altered", "--partitions", 5).out, "")
    same(len(described(stage, "altered")), 6)
    printed = stage.tools("topics", "--alter", "--topic", "altered", "--partitions", 4, code=1)
    assert "InvalidPartitionsException" in printed.err, printed


@case
def topics_delete(stage: Stage) -> None:
    stage.topic("deleted-1")
    stage.topic("deleted-2")
    same(stage.tools("topics", "--delete", "--topic", "deleted-.*").out, "")
    same(stage.tools("topics", "--list", "--topic", "deleted-.*").lines, [])
    printed = stage.tools("topics", "--delete", "--topic", "deleted-1", code=1)
    assert "does not exist as expected" in printed.out, printed
    stage.tools("topics", "--delete", "--topic", "deleted-1", "--if-exists")


@case
def topics_errors(stage: Stage) -> None:
    stage.topic("twice")
    printed = stage.tools("topics", "--create", "--topic", "twice", code=1)
    assert "TopicExistsException" in printed.err, printed
    stage.tools("topics", "--create", "--topic", "twice", "--if-not-exists")
    printed = stage.tools("topics", "--create", "--topic", "wide", "--replication-factor", 3, code=1)
    assert "InvalidReplicationFactorException" in printed.err, printed
    printed = stage.tools("topics", "--create", "--topic", "odd", "--config", "retention.ms=long", code=1)
    assert "InvalidConfigurationException" in printed.err or "Invalid value long" in printed.err, printed
    printed = stage.tools("topics", "--describe", "--topic", "absent", code=1)
    assert "Topic 'absent' does not exist as expected" in printed.out, printed


@case
def topics_replica_assignment(stage: Stage) -> None:
    node = stage.tools("broker-api-versions").out.split("(id: ")[1].split(" ")[0]
    stage.tools("topics", "--create", "--topic", "assigned", "--replica-assignment", f"{node},{node}")
    same(described(stage, "assigned")[0]["PartitionCount"], "2")


@case
def topics_filters(stage: Stage) -> None:
    stage.topic("overridden", 1, retention_ms=5)
    stage.topic("plain", 1)
    for option in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        same(stage.tools("topics", "--describe", option).out.strip(), "")
    printed = stage.tools("topics", "--describe", "--topics-with-overrides")
    assert "Topic: overridden\t" in printed.out, printed
    at_min = stage.tools("topics", "--describe", "--topic", "plain", "--at-min-isr-partitions")
    same(len(at_min.lines), 1, at_min)


@case
def console_producer_and_consumer(stage: Stage) -> None:
    stage.topic("console", 1)
    stage.tools(
        "console-producer", "--topic", "console", "--reader-property", "parse.key=true", "--reader-property",
        "parse.headers=true", "--reader-property", "key.separator=|", "--reader-property", "null.marker=NULL",
        stdin="h:1,i:2\tkey|value\nNULL\tkey|NULL\nh:\u00e9\tNULL|\u4e16\n",
    )  # fmt: skip
    options = []
    for name in ("key", "offset", "partition", "headers", "timestamp"):
        options += ["--formatter-property", f"print.{name}=true"]
    lines = stage.consume("console", 3, *options)
    assert re.fullmatch(r"CreateTime:\d{13}", lines[0].split("\t")[0]), lines
    same(
        [line.split("\t")[1:] for line in lines],
        [
            ["Partition:0", "Offset:0", "h:1,i:2", "key", "value"],
            ["Partition:0", "Offset:1", "NO_HEADERS", "key", "null"],
            ["Partition:0", "Offset:2", "h:\u00e9", "null", "\u4e16"],
        ],
    )


@case
def console_producer_codecs(stage: Stage) -> None:
    stage.topic("codecs", 1)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        lines = "".join(f"{codec} {'x' * 100}\n" for _ in range(20))
        stage.tools("console-producer", "--topic", "codecs", "--compression-codec", codec, stdin=lines)
    lines = stage.consume("codecs", 100)
    same([line.split()[0] for line in lines[::20]], ["none", "gzip", "snappy", "lz4", "zstd"])


@case
def console_producer_acks(stage: Stage) -> None:
    stage.topic("acks", 1)
    for acks in ("0", "1", "all"):
        arguments = ["--command-property", f"acks={acks}", "--command-property", f"enable.idempotence={acks == 'all'}"]
        stage.tools("console-producer", "--topic", "acks", *arguments, stdin=f"{acks}\n")
    same(stage.consume("acks", 3), ["0", "1", "all"])


@case
def console_consumer_partition_and_offset(stage: Stage) -> None:
    stage.topic("placed", 1)
    stage.produce("placed", range(10))
    for offset, expected in (("7", ["7", "8", "9"]), ("earliest", [str(i) for i in range(10)])):
        printed = stage.tools(
            "console-consumer", "--topic", "placed", "--partition", 0, "--offset", offset, MAX_MESSAGES, len(expected),
            "--timeout-ms", 10000,
        )  # fmt: skip
        same(printed.lines, expected, printed)
        assert f"Processed a total of {len(expected)} messages" in printed.err, printed
    printed = stage.tools("console-consumer", "--topic", "placed", "--partition", 0, "--offset", "latest",
                          "--timeout-ms", 500)  # fmt: skip
    same(printed.lines, [], printed)


@case
def console_consumer_group_resumes(stage: Stage) -> None:
    stage.topic("resumed", 1)
    stage.produce("resumed", range(10))
    same(stage.consume("resumed", 4, "--group", "resuming"), ["0", "1", "2", "3"])
    same(stage.consume("resumed", 6, "--group", "resuming"), ["4", "5", "6", "7", "8", "9"])


@case
def console_consumer_include_pattern(stage: Stage) -> None:
    for name in ("pattern-a", "pattern-b"):
        stage.topic(name)
        stage.produce(name, [name])
    printed = stage.tools("console-consumer", "--include", "pattern-.", "--from-beginning", MAX_MESSAGES, 2,
                          "--timeout-ms", 10000)  # fmt: skip
    same(sorted(printed.lines), ["pattern-a", "pattern-b"], printed)


@case
def console_consumer_isolation(stage: Stage) -> None:
    stage.topic("isolated", 1)
    stage.produce("isolated", ["x"])
    same(stage.consume("isolated", 1, "--isolation-level", "read_committed"), ["x"])


@case
def get_offsets_by_time(stage: Stage) -> None:
    stage.topic("times", 2)
    stage.produce("times", range(3))
    time.sleep(0.05)
    between = int(time.time() * 1000)
    time.sleep(0.05)
    stage.produce("times", range(5))
    ends = stage.offsets("times")
    same(sum(ends.values()), 8)
    for form in ("-1", "latest"):
        same(stage.offsets("times", "--time", form), ends)
    for form in ("-2", "earliest", "-4", "earliest-local", "0"):
        found = stage.offsets("times", "--time", form)
        same({p: offset for p, offset in found.items() if ends[p]}, {p: 0 for p in ends if ends[p]})
    for form in ("-3", "max-timestamp"):
        found = stage.offsets("times", "--time", form)
        same(set(found), {p for p in ends if ends[p]} | set(found))
        assert all(offset < ends[p] for p, offset in found.items()), found
    for form in ("-5", "latest-tiered"):
        assert all(offset == -1 for offset in stage.offsets("times", "--time", form).values())
    before = stage.offsets("times", "--time", str(between))
    same(sum(ends[p] - offset for p, offset in before.items()), 5)
    same(stage.offsets("times", "--time", str(between + 3_600_000)), {})


@case
def get_offsets_filters(stage: Stage) -> None:
    stage.topic("filter-one", 3)
    stage.topic("filter-two", 2)
    printed = stage.tools("get-offsets", "--topic-partitions", "filter-one:1-3,filter-two:0")
    same(printed.lines, ["filter-one:1:0", "filter-one:2:0", "filter-two:0:0"], printed)
    printed = stage.tools("get-offsets", "--topic", "filter-.*", "--partitions", "1", "--exclude-internal-topics")
    same(printed.lines, ["filter-one:1:0", "filter-two:1:0"], printed)


@case
def delete_records(stage: Stage) -> None:
    stage.topic("trimmed", 1)
    stage.produce("trimmed", range(10))
    for offset, low in ((4, 4), (-1, 10)):
        wanted = {"partitions": [{"topic": "trimmed", "partition": 0, "offset": offset}], "version": 1}
        path = stage.file("delete.json", json.dumps(wanted))
        printed = stage.tools("delete-records", "--offset-json-file", path)
        assert f"partition: trimmed-0\tlow_watermark: {low}" in printed.out, printed
        same(stage.offsets("trimmed", "--time", "earliest"), {0: low})
    wanted = {"partitions": [{"topic": "trimmed", "partition": 0, "offset": 11}], "version": 1}
    printed = stage.tools("delete-records", "--offset-json-file", stage.file("delete.json", json.dumps(wanted)))
    assert "OffsetOutOfRangeException" in printed.out, printed
