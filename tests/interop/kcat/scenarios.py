"""Scenarios for kcat and a broker."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from functools import partial

from tests.support.clients.kcat import CONSUMER_PROTOCOL, Kcat, Running
from tests.support.waiting import wait_for

Scenario = Callable[[Kcat, str], None]


def create(kcat: Kcat, topic: str, partitions: int = 1) -> str:
    """kcat cannot create topics; the broker does when one is asked for, with as many partitions as it is set to."""
    found = [{"partitions": []}]

    def there() -> bool:
        found[:] = json.loads(kcat("-L", "-J", "-t", topic))["topics"]
        return len(found[0]["partitions"]) >= partitions

    wait_for(there, f"{topic} to be created", show=lambda: found)
    return topic


def metadata(kcat: Kcat, topic: str) -> None:
    create(kcat, topic, 2)
    text = kcat("-L")
    nodes = dict(enumerate(kcat.bootstrap.split(","), 1))
    controllers = [node for node, address in nodes.items() if f"broker {node} at {address} (controller)" in text]
    assert len(controllers) == 1, text
    assert f'topic "{topic}" with 2 partitions:' in text
    assert any(f"partition 1, leader {node}, replicas: {node}, isrs: {node}" in text for node in nodes), text
    told = json.loads(kcat("-L", "-J", "-t", topic))
    assert {each["id"]: each["name"] for each in told["brokers"]} == nodes
    assert told["controllerid"] in controllers
    assert [each["partition"] for each in told["topics"][0]["partitions"]] == [0, 1]
    assert {each["leader"] for each in told["topics"][0]["partitions"]} <= nodes.keys()


def produce_and_consume(kcat: Kcat, topic: str) -> None:
    create(kcat, topic)
    lines = [f"value {number}" for number in range(500)]
    kcat("-P", "-t", topic, "-p", "0", stdin="\n".join(lines))
    kcat("-P", "-t", topic, "-p", "1", stdin="other\n")
    assert kcat("-C", "-t", topic, "-p", "0", "-e", "-q").splitlines() == lines
    assert kcat("-C", "-t", topic, "-e", "-q", "-f", "%p %o %S\n").splitlines()[-1].split()[2].isdigit()
    assert len(kcat("-C", "-t", topic, "-e", "-q").splitlines()) == 501


def codec(kcat: Kcat, topic: str, name: str) -> None:
    create(kcat, topic)
    lines = [f"key-{number}:value {number} " + "ottla " * 40 for number in range(100)]
    packing = [] if name == "none" else ["-z", name]
    options = ["-p", "1", "-K:", "-H", "origin=kcat", "-H", "empty=", "-X", "linger.ms=50"]
    kcat("-P", "-t", topic, *packing, *options, stdin="\n".join(lines))
    read = kcat("-C", "-t", topic, "-p", "1", "-o", "beginning", "-e", "-q", "-f", "%o %k:%s %h\n").splitlines()
    assert read == [f"{at} {line} origin=kcat,empty=" for at, line in enumerate(lines)]
    rows = [json.loads(line) for line in kcat("-C", "-t", topic, "-e", "-q", "-J").splitlines()]
    found = [(row["partition"], row["offset"], f"{row['key']}:{row['payload']}") for row in rows]
    assert found == [(1, at, line) for at, line in enumerate(lines)]


def headers_keys_tombstones(kcat: Kcat, topic: str) -> None:
    create(kcat, topic)
    given = ["-H", "origin=kcat", "-H", "empty=", "-H", "origin=twice"]
    kcat("-P", "-t", topic, "-p", "0", "-K:", "-Z", *given, stdin="schlüssel:wört\nschlüssel:\n")
    text = kcat("-C", "-t", topic, "-p", "0", "-e", "-q", "-f", "%k|%s|%S|%h\n").splitlines()
    headers = "origin=kcat,empty=,origin=twice"
    assert text == [f"schlüssel|wört|5|{headers}", f"schlüssel||-1|{headers}"], text


def json_output(kcat: Kcat, topic: str) -> None:
    create(kcat, topic)
    before = int(time.time() * 1000) - 1
    kcat("-P", "-t", topic, "-p", "1", "-K:", "-H", "a=b", stdin='k:a "quoted" text\n')
    [line] = kcat("-C", "-t", topic, "-e", "-q", "-J").splitlines()
    row = json.loads(line)
    assert (row["topic"], row["partition"], row["offset"]) == (topic, 1, 0)
    assert (row["key"], row["payload"], row["headers"]) == ("k", 'a "quoted" text', ["a", "b"])
    assert row["tstype"] == "create"
    assert before <= row["ts"] <= time.time() * 1000


def big_messages(kcat: Kcat, topic: str) -> None:
    create(kcat, topic)
    noise = random.Random(5)
    text = "".join(noise.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=900_000))
    kcat("-P", "-t", topic, "-p", "0", stdin=text)
    assert kcat("-C", "-t", topic, "-p", "0", "-e", "-q") == text + "\n"
    assert kcat("-C", "-t", topic, "-p", "0", "-e", "-q", "-X", "fetch.message.max.bytes=1000").startswith(text[:50])
    larger = "-X", "message.max.bytes=10000000"
    complaint = kcat("-P", "-t", topic, "-p", "0", *larger, stdin=text * 2, fails=True)
    assert "too large" in complaint, complaint


def read_from_timestamp(kcat: Kcat, topic: str) -> None:
    create(kcat, topic)
    kcat("-P", "-t", topic, "-p", "0", stdin="first\n")
    time.sleep(0.02)
    between = int(time.time() * 1000)
    time.sleep(0.02)
    kcat("-P", "-t", topic, "-p", "0", stdin="second\n")
    later = int(time.time() * 1000) + 3_600_000
    for moment, offset in ((between, 1), (0, 0), (later, -1), (-2, 0), (-1, 2)):
        assert kcat("-Q", "-t", f"{topic}:0:{moment}").strip() == f"{topic} [0] offset {offset}"
    assert kcat("-C", "-t", topic, "-p", "0", "-e", "-q", "-o", f"s@{between}").split() == ["second"]
    assert kcat("-C", "-t", topic, "-p", "0", "-q", "-o", "s@0", "-o", f"e@{between}").split() == ["first"]


def where_to_begin_and_to_end(kcat: Kcat, topic: str) -> None:
    create(kcat, topic)
    kcat("-P", "-t", topic, "-p", "0", stdin="0\n1\n2\n3\n4\n")

    def read(*arguments: str) -> str:
        return "".join(kcat("-C", "-t", topic, "-p", "0", "-q", *arguments).split())

    assert read("-o", "beginning", "-e") == "01234"
    assert read("-o", "3", "-e") == "34"
    assert read("-o", "-2", "-e") == "34"
    assert read("-o", "end", "-e") == ""
    assert read("-o", "beginning", "-c", "2") == "01"
    assert read("-o", "1000", "-e", "-X", "auto.offset.reset=earliest") == "01234", "out of range"


def invalid_topic_name(kcat: Kcat, topic: str) -> None:
    complaint = kcat("-P", "-t", "no/slash", stdin="never\n", fails=True)
    assert "nvalid topic" in complaint or "Unknown topic" in complaint, complaint
    assert "no/slash" not in kcat("-L")


def idempotent_producer(kcat: Kcat, topic: str) -> None:
    create(kcat, topic)
    lines = [str(number) for number in range(5000)]
    kcat("-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", stdin="\n".join(lines))
    assert kcat("-C", "-t", topic, "-p", "0", "-e", "-q").split() == lines


def transaction_commit(kcat: Kcat, topic: str) -> None:
    create(kcat, topic)
    for value in ("a", "b"):
        kcat("-P", "-t", topic, "-p", "0", "-X", f"transactional.id={topic}", stdin=f"{value}1\n{value}2\n")
    assert kcat("-C", "-t", topic, "-p", "0", "-e", "-q", "-f", "%o %s\n").splitlines() == [
        "0 a1",
        "1 a2",
        "3 b1",
        "4 b2",
    ], "each end takes an offset"


def transaction_abort(kcat: Kcat, topic: str) -> None:
    """One is interrupted in the middle of a transaction; the next of its id gives that up."""
    create(kcat, topic)
    producer = kcat.start("-P", "-t", topic, "-p", "0", "-X", f"transactional.id={topic}", "-X", "linger.ms=1")
    # It reads its input in large pieces.
    given_up = [f"given up {number}" for number in range(20_000)]
    producer.write("\n".join(given_up))

    def read(isolation: str) -> list[str]:
        return kcat("-C", "-t", topic, "-p", "0", "-e", "-q", "-X", f"isolation.level={isolation}").splitlines()

    wait_for(lambda: read("read_uncommitted")[:1] == given_up[:1], "the records of an open transaction")
    assert read("read_committed") == []
    producer.stop(signal.SIGINT)
    kcat("-P", "-t", topic, "-p", "0", "-X", f"transactional.id={topic}", stdin="kept\n")
    assert read("read_committed") == ["kept"]
    everything = read("read_uncommitted")
    assert everything[-1] == "kept"
    assert everything[:-1] == given_up[: len(everything) - 1]


def _share(members: list[Running], partitions: int = 2) -> None:
    def shared() -> bool:
        owned = [place for one in members for place in one.owns]
        return sorted(owned) == list(range(partitions)) and all(one.owns for one in members)

    wait_for(shared, f"{len(members)} to share", show=lambda: "\n".join(one.notes for one in members))


def _produce(kcat: Kcat, topic: str, value: str, partitions: int = 2) -> None:
    for partition in range(partitions):
        kcat("-P", "-t", topic, "-p", str(partition), stdin=f"{value}{partition}\n")


def group_join_and_leave(kcat: Kcat, topic: str) -> None:
    create(kcat, topic)
    first, second = kcat.member(topic, topic), kcat.member(topic, topic)
    _share([first, second])
    _produce(kcat, topic, "a")
    wait_for(lambda: sorted(first.values + second.values) == ["a0", "a1"], "both to get theirs")
    second.stop()
    _share([first])
    _produce(kcat, topic, "b")
    wait_for(lambda: {"b0", "b1"} <= set(first.values), "the first to get all", show=lambda: first.notes)
    rows = sorted(first.rows + second.rows)
    assert rows == [(0, 0, "a0"), (0, 1, "b0"), (1, 0, "a1"), (1, 1, "b1")], "none twice: it left what it committed"


def group_crash(kcat: Kcat, topic: str) -> None:
    create(kcat, topic)
    short = ("-X", "session.timeout.ms=1500")
    first, second = kcat.member(topic, topic, *short), kcat.member(topic, topic, *short)
    _share([first, second])
    second.kill()
    _share([first])
    _produce(kcat, topic, "a")
    wait_for(lambda: sorted(first.values) == ["a0", "a1"], "the first to get all", show=lambda: first.notes)


def group_static_member(kcat: Kcat, topic: str) -> None:
    create(kcat, topic)
    ample = ("-X", "session.timeout.ms=20000", "-X")
    first = kcat.member(topic, topic, *ample, "group.instance.id=first")
    second = kcat.member(topic, topic, *ample, "group.instance.id=second")
    _share([first, second])
    moves = list(first.moves)
    second.kill()
    back = kcat.member(topic, topic, *ample, "group.instance.id=second")
    wait_for(lambda: back.owns == second.owns, "it to have what it had", show=lambda: back.notes)
    _produce(kcat, topic, "a")
    wait_for(lambda: sorted(first.values + back.values) == ["a0", "a1"], "both to get theirs")
    assert first.moves == moves, "the other notices nothing"


def group_cooperative(kcat: Kcat, topic: str) -> None:
    create(kcat, topic)
    cooperative = ("-X", "partition.assignment.strategy=cooperative-sticky")
    first = kcat.member(topic, topic, *cooperative)
    wait_for(lambda: first.owns == {0, 1}, "the first to have all", show=lambda: first.notes)
    second = kcat.member(topic, topic, *cooperative)
    _share([first, second])
    revoked = [places for kind, places in first.moves if kind == "revoked" and places]
    assert revoked == [second.owns], first.notes
    _produce(kcat, topic, "a")
    wait_for(lambda: sorted(first.values + second.values) == ["a0", "a1"], "both to get theirs")


def commit_and_resume(kcat: Kcat, topic: str) -> None:
    create(kcat, topic)
    _produce(kcat, topic, "a")
    first = kcat.member(topic, topic)
    wait_for(lambda: sorted(first.values) == ["a0", "a1"], "what there is", show=lambda: first.notes)
    first.stop()
    _produce(kcat, topic, "b")
    heir = kcat.member(topic, topic)
    wait_for(lambda: len(heir.values) >= 2, "what was not read", show=lambda: heir.notes)
    assert sorted(heir.values) == ["b0", "b1"]


def regular_expression(kcat: Kcat, topic: str) -> None:
    for end in ("a", "b"):
        create(kcat, f"{topic}.{end}")
        kcat("-P", "-t", f"{topic}.{end}", "-p", "0", stdin=f"{end}\n")
    create(kcat, f"other-{topic}")
    member = kcat.member(topic, f"^{topic}\\..*")
    wait_for(lambda: sorted(member.values) == ["a", "b"], "both topics", show=lambda: member.notes)


def broker_restart(kcat: Kcat, topic: str, restart: Callable[[], object]) -> None:
    """The broker is killed and comes back; kcat ends itself when no broker is there, and begins where it was."""
    create(kcat, topic)
    _produce(kcat, topic, "a")
    member = kcat.member(topic, topic)
    wait_for(lambda: len(member.values) == 2, "what was there before", show=lambda: member.notes)
    member.stop()
    restart()
    _produce(kcat, topic, "b")
    heir = kcat.member(topic, topic)
    wait_for(lambda: len(heir.values) >= 2, "what came afterwards", show=lambda: heir.notes)
    assert sorted(heir.values) == ["b0", "b1"]
    assert sorted(kcat("-C", "-t", topic, "-e", "-q").split()) == ["a0", "a1", "b0", "b1"]


def consumer_protocol_join_and_leave(kcat: Kcat, topic: str) -> None:
    create(kcat, topic)
    first = kcat.member(topic, topic, *CONSUMER_PROTOCOL)
    wait_for(lambda: first.owns == {0, 1}, "the first to have all", show=lambda: first.notes)
    second = kcat.member(topic, topic, *CONSUMER_PROTOCOL)
    _share([first, second])
    revoked = [places for kind, places in first.moves if kind == "revoked" and places]
    assert revoked == [second.owns], first.notes
    _produce(kcat, topic, "a")
    wait_for(lambda: sorted(first.values + second.values) == ["a0", "a1"], "both to get theirs")
    second.stop()
    _share([first])
    _produce(kcat, topic, "b")
    wait_for(lambda: {"b0", "b1"} <= set(first.values), "the first to get all", show=lambda: first.notes)
    rows = sorted(first.rows + second.rows)
    assert rows == [(0, 0, "a0"), (0, 1, "b0"), (1, 0, "a1"), (1, 1, "b1")], "none twice: it left what it committed"


def consumer_protocol_crash(kcat: Kcat, topic: str) -> None:
    create(kcat, topic)
    first, second = (kcat.member(topic, topic, *CONSUMER_PROTOCOL) for _ in range(2))
    _share([first, second])
    second.kill()
    _share([first])
    _produce(kcat, topic, "a")
    wait_for(lambda: sorted(first.values) == ["a0", "a1"], "the first to get all", show=lambda: first.notes)


def consumer_protocol_static_member(kcat: Kcat, topic: str) -> None:
    """It leaves for a while, and comes back to what it had."""
    create(kcat, topic)
    members = [kcat.member(topic, topic, *CONSUMER_PROTOCOL, "-X", f"group.instance.id={name}") for name in "ab"]
    _share(members)
    first, second = members
    moves, had = list(first.moves), set(second.owns)
    second.stop()
    back = kcat.member(topic, topic, *CONSUMER_PROTOCOL, "-X", "group.instance.id=b")
    wait_for(lambda: back.owns == had, "it to have what it had", show=lambda: back.notes)
    _produce(kcat, topic, "a")
    wait_for(lambda: sorted(first.values + back.values) == ["a0", "a1"], "both to get theirs")
    assert first.moves == moves, "the other notices nothing"


def consumer_protocol_regular_expression(kcat: Kcat, topic: str) -> None:
    """The broker matches it."""
    for end in ("a", "b"):
        create(kcat, f"{topic}.{end}")
        kcat("-P", "-t", f"{topic}.{end}", "-p", "0", stdin=f"{end}\n")
    member = kcat.member(topic, f"^{topic}\\..*", *CONSUMER_PROTOCOL)
    wait_for(lambda: sorted(member.values) == ["a", "b"], "both topics", show=lambda: member.notes)


def named(*scenarios: Scenario) -> dict[str, Scenario]:
    return {scenario.__name__: scenario for scenario in scenarios}


ALL: dict[str, Scenario] = {
    **named(metadata, produce_and_consume),
    **{f"codec_{name}": partial(codec, name=name) for name in ("none", "gzip", "snappy", "lz4", "zstd")},
    **named(headers_keys_tombstones, json_output, big_messages, read_from_timestamp, where_to_begin_and_to_end),
    **named(invalid_topic_name, idempotent_producer, transaction_commit, transaction_abort),
    **named(group_join_and_leave, group_crash, group_static_member, group_cooperative),
    **named(commit_and_resume, regular_expression),
}

MODERN = named(
    consumer_protocol_join_and_leave,
    consumer_protocol_crash,
    consumer_protocol_static_member,
    consumer_protocol_regular_expression,
)
"""Of the consumer protocol (KIP-848)."""
