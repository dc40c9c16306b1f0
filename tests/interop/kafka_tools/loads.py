"""Load generators and verifiable clients, transactions, and what the logs look like to Kafka's own readers."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

from tests.interop.kafka_tools.cases import MAX_MESSAGES, Stage, case, same, table, until
from tests.interop.kafka_tools.cluster import node_ids

FORMATTERS = "org.apache.kafka.tools.consumer"


def events(text: str, name: str) -> list[dict[str, object]]:
    """The events of this name among the lines of JSON that the verifiable clients print."""
    found = (json.loads(line) for line in text.splitlines() if line.startswith("{"))
    return [event for event in found if event["name"] == name]


@case
def producer_and_consumer_perf_test(stage: Stage) -> None:
    stage.topic("perf", 2)
    load = ["--topic", "perf", "--num-records", 2000, "--record-size", 100, "--throughput", -1]
    printed = stage.tools("producer-perf-test", *load)
    assert re.search(r"^2000 records sent, .* ms avg latency", printed.out, re.MULTILINE), printed
    printed = stage.tools("producer-perf-test", *load, "--transactional-id", "perf", "--transaction-duration-ms", 50)
    assert "2000 records sent" in printed.out, printed
    printed = stage.tools("consumer-perf-test", "--topic", "perf", "--num-records", 4000, "--timeout", 10000)
    heading, values = (line.split(", ") for line in printed.lines[-2:])
    read = dict(zip(heading, values, strict=True))
    same((heading[0], int(read["data.consumed.in.nMsg"])), ("start.time", 4000), printed)


@case
def verifiable_producer_and_consumer(stage: Stage) -> None:
    stage.topic("verified", 1)
    printed = stage.tools.alone("verifiable-producer", "--topic", "verified", MAX_MESSAGES, 50, "--acks", -1)
    same([event["offset"] for event in events(printed.out, "producer_send_success")], list(range(50)), printed)
    same(events(printed.out, "producer_send_error"), [], printed)
    same((events(printed.out, "tool_data")[0]["sent"], events(printed.out, "tool_data")[0]["acked"]), (50, 50), printed)
    printed = stage.tools("verifiable-consumer", "--topic", "verified", "--group-id", "verifying", MAX_MESSAGES, 50,
                          "--reset-policy", "earliest")  # fmt: skip
    same(sum(int(str(event["count"])) for event in events(printed.out, "records_consumed")), 50, printed)
    commits = events(printed.out, "offsets_committed")
    same((commits[-1]["success"], commits[-1]["offsets"]),
         (True, [{"topic": "verified", "partition": 0, "offset": 50}]), printed)  # fmt: skip


@case
def end_to_end_latency(stage: Stage) -> None:
    stage.topic("latency", 1)
    printed = stage.tools("e2e-latency", "--topic", "latency", "--num-records", 20, "--producer-acks", "all",
                          "--record-size", 50)  # fmt: skip
    assert re.search(r"^Avg latency: [0-9.]+ ms", printed.out, re.MULTILINE), printed


@case
def transactions(stage: Stage) -> None:
    stage.topic("transacted", 1)
    stage.tools("producer-perf-test", "--topic", "transacted", "--num-records", 10, "--record-size", 10, "--throughput",
                -1, "--transactional-id", "transacting")  # fmt: skip

    def row() -> list[str]:
        rows = table(stage.tools("transactions", "list"), "TransactionalId", "Coordinator", "TransactionState")
        return next(row for row in rows if row[0] == "transacting")

    until("the transaction is complete", lambda: row()[2] == "CompleteCommit")
    coordinator = row()[1]
    assert coordinator in node_ids(stage).values(), coordinator
    described = stage.tools("transactions", "describe", "--transactional-id", "transacting")
    words = dict(zip(described.lines[0].split("\t"), described.lines[1].split("\t"), strict=False))
    words = {name.strip(): value.strip() for name, value in words.items()}
    same((words["TransactionState"], words["CoordinatorId"]), ("CompleteCommit", coordinator), described)
    of_partition = stage.tools("transactions", "describe-producers", "--topic", "transacted", "--partition", 0)
    rows = table(of_partition, "ProducerId", "CurrentTransactionStartOffset")
    same(rows, [[words["ProducerId"], "None"]], of_partition)
    hanging = stage.tools("transactions", "find-hanging", "--broker-id", coordinator)
    same(len(hanging.lines), 1, hanging)
    absent = stage.tools("transactions", "describe", "--transactional-id", "never", code=1)
    assert "could not be found" in absent.err, absent


def open_transaction(stage: Stage, topic: str, transactional_id: str) -> None:
    stage.topic(topic, 1)
    stage.tools.bare("open-transaction", stage.bootstrap, transactional_id, topic)
    printed = stage.tools("transactions", "list", "--duration-filter", 0)
    assert [transactional_id, "Ongoing"] in table(printed, "TransactionalId", "TransactionState"), printed


@case
def transactions_abort(stage: Stage) -> None:
    """The marker that ends a transaction which its coordinator has forgotten."""
    open_transaction(stage, "hanging", "hanging")
    look = ["describe-producers", "--topic", "hanging", "--partition", 0]
    same(table(stage.tools("transactions", *look), "CurrentTransactionStartOffset"), [["0"]])
    stage.tools("transactions", "abort", "--topic", "hanging", "--partition", 0, "--start-offset", 0)
    same(table(stage.tools("transactions", *look), "CurrentTransactionStartOffset"), [["None"]])


@case
def transactions_force_terminate(stage: Stage) -> None:
    open_transaction(stage, "terminated", "terminated")
    stage.tools("transactions", "forceTerminateTransaction", "--transactionalId", "terminated")

    def state() -> str:
        printed = stage.tools("transactions", "list", "--transactional-id-pattern", "termin.*")
        same({row[0] for row in table(printed, "TransactionalId")}, {"terminated"}, printed)
        return table(printed, "TransactionState")[0][0]

    until("it is aborted", lambda: state() in ("CompleteAbort", "Empty"))
    same(stage.offsets("terminated"), {0: 2})


@case
def transactional_message_copier(stage: Stage) -> None:
    stage.topic("copied-from", 1)
    stage.topic("copied-to", 1)
    stage.produce("copied-from", range(100))
    places = ["--input-topic", "copied-from", "--input-partition", 0, "--output-topic", "copied-to"]
    how = ["--consumer-group", "copying", "--transaction-size", 20, "--enable-random-aborts", "--group-mode"]
    stage.tools.bare("transactional-copier", "--broker-list", stage.bootstrap, *places, "--max-messages", 100, *how,
                     "--transactional-id", "copying")  # fmt: skip
    lines = stage.consume("copied-to", 100, "--isolation-level", "read_committed")
    same(lines, [str(value) for value in range(100)])


def formatted(stage: Stage, topic: str, formatter: str, pattern: str) -> None:
    """The formatter must show what the pattern finds in the topic. Who finds nothing soon enough is given longer."""
    what = ["--topic", topic, "--from-beginning", "--formatter", f"{FORMATTERS}.{formatter}"]
    for timeout_ms in (1000, 3000, 9000):
        printed = stage.tools("console-consumer", *what, "--timeout-ms", timeout_ms)
        if re.search(pattern, printed.out):
            return
    raise AssertionError(f"{pattern} not found: {printed}")


@case
def offsets_topic_formatters(stage: Stage) -> None:
    stage.topic("formatted", 1)
    stage.produce("formatted", range(3))
    stage.consume("formatted", 3, "--group", "formatting")
    key = re.escape('"group":"formatting","topic":"formatted","partition":0')
    formatted(stage, "__consumer_offsets", "OffsetsMessageFormatter", key + r'.*?"offset":3')
    pattern = r'"group":"formatting".*?"protocolType":"consumer"'
    formatted(stage, "__consumer_offsets", "GroupMetadataMessageFormatter", pattern)


@case
def transactions_topic_formatter(stage: Stage) -> None:
    formatted(stage, "__transaction_state", "TransactionLogMessageFormatter", '"transactionalId":"transacting"')


def segments(stage: Stage, partition: str, ending: str) -> list[Path]:
    """The files of a partition in the directory that the broker names."""
    topic = partition.rpartition("-")[0]
    printed = stage.tools("log-dirs", "--describe", "--topic-list", topic)
    directory = Path(json.loads(printed.lines[-1])["brokers"][0]["logDirs"][0]["logDir"])
    return sorted(path for path in directory.rglob(f"*{ending}") if path.parent.name == partition)


def dump(stage: Stage, files: list[Path], *arguments: str) -> list[str]:
    return stage.tools.bare("dump-log", "--files", ",".join(map(str, files)), *arguments).lines


@case
def dump_log_of_records(stage: Stage) -> None:
    stage.topic("dumped", 1)
    stage.tools("console-producer", "--topic", "dumped", "--compression-codec", "lz4", "--reader-property",
                "parse.key=true", "--reader-property", "key.separator=:", stdin="k:one\nk:two\n")  # fmt: skip
    stage.produce("dumped", ["three"])
    stage.on_disk()
    files = segments(stage, "dumped-0", ".log")
    lines = dump(stage, files, "--print-data-log")
    same(lines[:2], [f"Dumping {files[0]}", "Log starting offset: 0"])
    batches = [line for line in lines if line.startswith("baseOffset:")]
    same([re.findall(r"(?:count|compresscodec|isvalid): (\S+)", line) for line in batches],
         [["2", "lz4", "true"], ["1", "none", "true"]], lines)  # fmt: skip
    records = [re.findall(r"offset: (\d+) .*?(?:key: (\S+) )?payload: (\w+)", line) for line in lines if line[0] == "|"]
    same(records, [[("0", "k", "one")], [("1", "k", "two")], [("2", "", "three")]], lines)


@case
def dump_log_of_indexes(stage: Stage) -> None:
    stage.topic("rolled", 1, segment_bytes=1048576)
    stage.tools("producer-perf-test", "--topic", "rolled", "--num-records", 2500, "--record-size", 1000, "--throughput",
                -1)  # fmt: skip
    stage.on_disk()
    logs = segments(stage, "rolled-0", ".log")
    assert len(logs) >= 2, logs
    first = logs[0].with_suffix
    indexes = dump(stage, [first(".index")], "--index-sanity-check")
    assert any("passed sanity check" in line for line in indexes), indexes
    entries = dump(stage, [first(".index")])
    assert any(re.match(r"offset: \d+ position: \d+", line) for line in entries), entries
    times = dump(stage, [first(".timeindex")])
    assert any(re.match(r"timestamp: \d+ offset: \d+", line) for line in times), times
    assert not any("Mismatches" in line or "not found" in line for line in entries + times), entries + times


@case
def dump_log_of_coordinators(stage: Stage) -> None:
    stage.on_disk()
    offsets = [path for number in range(50) for path in segments(stage, f"__consumer_offsets-{number}", ".log")]
    lines = dump(stage, [path for path in offsets if path.stat().st_size], "--offsets-decoder")
    assert any('"group":"formatting","topic":"formatted","partition":0' in line for line in lines), lines
    states = [path for number in range(50) for path in segments(stage, f"__transaction_state-{number}", ".log")]
    lines = dump(stage, [path for path in states if path.stat().st_size], "--transaction-log-decoder")
    assert any('"transactionalId":"transacting"' in line for line in lines), lines


@case
def streams_application_reset(stage: Stage) -> None:
    stage.topic("app-input", 1)
    stage.topic("app-counts-changelog", 1)
    stage.produce("app-input", range(5))
    stage.consume("app-input", 5, "--group", "app")
    time.sleep(0.01)
    printed = stage.tools("streams-reset", "--application-id", "app", "--input-topics", "app-input", "--force")
    assert "app-counts-changelog" in printed.out, printed
    same(stage.tools("topics", "--list", "--topic", "app-counts.*").lines, [])
    same(len(stage.consume("app-input", 5, "--group", "app")), 5)
