"""Attacks from outside, each on a broker of its own, while honest groups go on.

``python -m tests.hostile.attacks [NAME…]`` prints what each costs: CPU, memory above idle, and what the honest groups
felt. It ends with 1 if one is over budget: honest heartbeats at 99 % above 50 ms (20 ms beside DescribeGroups of very
many groups), 300 MB above idle, or a broker that does not serve afterwards.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.compression import Codec, compress
from ottla.protocol.headers import frame_request
from ottla.protocol.primitives import uvarint_bytes
from tests.hostile.fuzz_batches import around
from tests.hostile.seeding import committed, seed, with_members
from tests.hostile.victim import Victim
from tests.support.client import Client, batch
from tests.support.peer import ConnectionClosed
from tests.support.requests import fetch_fields, request
from tests.wire.requests import SUBSCRIBED

P99_MS = 50
MEMORY_BYTES = 300 << 20
LONGEST_S = 60
"""An attack that goes on for longer is ended, with its broker."""
HOLD_S = 1.0
"""For how long what an attack has put up stays there."""
FELT_S = 3.0
"""For how long at least the honest groups are asked what they feel."""
DESCRIPTORS = "-n 1024"
GROUPS, TEAMS = 200_000, 10_000
MANY_NAMES, MANY_ITEMS = 100_000, 130_000
"""As many as one request may name, or a little less."""

Attack = Callable[[Victim], None]


@dataclass(slots=True)
class Cost:
    """What an attack came to."""

    name: str
    cpu_s: float = 0.0
    memory_bytes: int = 0
    heartbeats: int = 0
    p99_ms: float = 0.0
    longest_ms: float = 0.0
    fault: str = ""
    most_ms: float = P99_MS

    @property
    def is_over(self) -> bool:
        return bool(self.fault) or self.p99_ms >= self.most_ms or self.memory_bytes >= MEMORY_BYTES

    def row(self) -> str:
        """Of the table that `HEAD` begins."""
        felt = f"{self.p99_ms:.1f} ms | {self.longest_ms:.0f} ms" if self.heartbeats else "? | ?"
        serves = self.fault or "yes"
        return f"| {self.name} | {self.cpu_s:.2f} s | {self.memory_bytes / 2**20:.0f} MB | {felt} | {serves} |"


HEAD = """\
| attack | CPU | memory above idle | p99 of honest heartbeats | longest | serves afterwards |
|---|---|---|---|---|---|"""


# The attacks


def idle_connections(victim: Victim) -> None:
    """More connections than descriptors, then a produce that needs new segments."""
    with Client(victim.port) as client, many(victim, 1_100):
        topic = client.topic(segment_bytes=str(1 << 20))
        for _ in range(8):
            assert client.produce(topic, batch(b"v" * 900_000)).error_code == 0, "a record is refused"


def nested_pattern(victim: Victim) -> None:
    """A regular expression of 26 bytes that stands for a thousand million."""
    ask_for_transactions(victim, "((((){1000}){1000}){1000})")


def pattern_over_long_ids(victim: Victim) -> None:
    """A harmless regular expression over a thousand transactional ids of 32 KB."""
    fields = {"transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
    with many(victim, 50) as clients:
        for number in range(20):
            for index, client in enumerate(clients):
                name = f"{number}-{index}-" + "a" * 32_000
                client.start(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=name, **fields)
            for client in clients:
                client.answer()
    ask_for_transactions(victim, ".*b")


def records_by_the_million(victim: Victim) -> None:
    """A batch of a few kilobytes with 15 million records, and then a look into it by time."""
    record, count = b"\x0c\0\0\0\1\1\0", 15_000_000
    now_ms = int(time.time() * 1000)
    data = around(Codec.ZSTD, bytes(compress(Codec.ZSTD, record * count)), count, base_ms=now_ms, max_ms=now_ms + 1)
    with patient(victim) as client:
        topic = client.topic()
        client.produce(topic, data)
        place = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": now_ms + 1}
        for _ in range(3):
            fields = {"replica_id": -1, "topics": [{"name": topic, "partitions": [place]}]}
            discard(client, ApiKey.LIST_OFFSETS, 7, **fields)


def body_tags(victim: Victim) -> None:
    """A hundred megabytes of tagged fields that say nothing."""
    send_large(victim, frame_request(18, 3, 1, "c", b"", flexible=True)[4:] + b"\2n\2v", b"\x7f\0")


def header_tags(victim: Victim) -> None:
    """The same in the header."""
    send_large(victim, frame_request(18, 3, 1, "c", b"", flexible=True)[4:-1], b"\x7f\0")


def bombs_to_be_compacted(victim: Victim) -> None:
    """Ten small batches, each of two million records, into topics whose records the broker looks at one by one."""
    send_bombs(victim, cleanup_policy="compact")


def bombs_to_be_compressed(victim: Victim) -> None:
    """The same where the broker writes another codec."""
    send_bombs(victim, compression_type="gzip")


def unread_fetches(victim: Victim) -> None:
    """Forty clients that each ask for 55 MB and do not read."""
    with Client(victim.port) as client:
        topic = client.topic()
        for _ in range(56):
            assert client.produce(topic, batch(b"v" * 1_000_000)).error_code == 0
    fields = fetch_fields(topic, max_bytes=55 << 20, partition_max_bytes=55 << 20)
    with many(victim, 40) as clients:
        for client in clients:
            client.start(ApiKey.FETCH, 12, **fields)
        time.sleep(HOLD_S)


def unfinished_frames(victim: Victim) -> None:
    """Six hundred frames of 2 MB of which the second half never comes."""
    half = struct.pack(">i", 2 << 20) + bytes(1 << 20)
    with many(victim, 600) as clients:
        for client in clients:
            client.socket.settimeout(0.05)
            try:
                client.raw(half)
            except OSError:
                continue  # it is not read from any more, or was closed
        time.sleep(HOLD_S)


def configs_again_and_again(victim: Victim) -> None:
    """DescribeConfigs with the broker named 5,000 times."""
    resources = [{"resource_type": 4, "resource_name": "1", "configuration_keys": None}] * 5_000
    with patient(victim) as client:
        discard(client, ApiKey.DESCRIBE_CONFIGS, 4, resources=resources, include_synonyms=True)


def groups_again_and_again(victim: Victim) -> None:
    """DescribeGroups with one group named 20,000 times."""
    with patient(victim) as client:
        joined = client.enter("described", protocols={"range": bytes(30_000)})
        client.sync("described", joined, {joined.member_id: bytes(8_000)})
        discard(client, ApiKey.DESCRIBE_GROUPS, 5, groups=["described"] * 20_000)


def joins_with_long_client_ids(victim: Victim) -> None:
    """Ten thousand members that ask for an id, which begins with the client's."""
    with Client(victim.port, "c" * 32_000) as client:
        for _ in range(10_000):
            client.join("crowd")


def large_members(victim: Victim) -> None:
    """Two hundred members of one group, each with 1 MB to say of itself."""
    with many(victim, 200) as clients:
        for client in clients:
            client.describe("heavy")  # the first request of a connection has to be short
            client.start_join("heavy", 3, protocols={"range": SUBSCRIBED + bytes(1 << 20)}, rebalance_ms=2_000)
        time.sleep(3)
        for client in clients:
            client.socket.settimeout(0.2)
            try:
                while client.socket.recv(1 << 20):
                    pass
            except OSError:
                continue


def silent_http(victim: Victim) -> None:
    """As many HTTP connections as there may be, none of which says anything."""
    address = ("127.0.0.1", int(victim.http_url.rpartition(":")[2]))
    with ExitStack() as stack:
        for _ in range(128):
            stack.enter_context(socket.create_connection(address))
        time.sleep(HOLD_S)
        with urllib.request.urlopen(victim.http_url + "/readyz", timeout=10) as told:
            assert told.status == 200


def list_groups(victim: Victim) -> None:
    """All the groups that there are, five times."""
    with patient(victim) as client:
        for _ in range(5):
            discard(client, ApiKey.LIST_GROUPS, 4)


def describe_groups(victim: Victim) -> None:
    """All the groups with members that there are."""
    with patient(victim) as client:
        discard(client, ApiKey.DESCRIBE_GROUPS, 5, groups=[f"team-{number:07}" for number in range(TEAMS)])


def delete_groups(victim: Victim) -> None:
    """All the groups that there are, and nine times as many that there are not."""
    with patient(victim) as client:
        client.metadata()  # the first request of a connection has to be short
        for begin in range(0, 2 * MANY_NAMES, MANY_NAMES):
            names = [f"group-{number:07}" for number in range(begin, begin + MANY_NAMES)]
            discard(client, ApiKey.DELETE_GROUPS, 2, groups_names=names)


def settings_of_groups(victim: Victim) -> None:
    """IncrementalAlterConfigs and AlterConfigs of 3,000 groups beside 2,000 topics."""
    with patient(victim) as client:
        for key, version in ((ApiKey.INCREMENTAL_ALTER_CONFIGS, 1), (ApiKey.ALTER_CONFIGS, 2)):
            config = {"name": "consumer.session.timeout.ms", "value": "50000"}
            resources = [
                {"resource_type": 32, "resource_name": f"g{number}", "configs": [config]} for number in range(3_000)
            ]
            discard(client, key, version, resources=resources)


def items_of_metadata(victim: Victim) -> None:
    """A million topics that there are not, in eight requests that are sent together."""
    topics = [{"name": f"t{number}"} for number in range(MANY_ITEMS)]
    send_eight(victim, ApiKey.METADATA, 12, topics=topics, allow_auto_topic_creation=True)


def items_of_a_fetch(victim: Victim) -> None:
    """A million partitions that there are not."""
    rows = [{"partition": number, "fetch_offset": 0, "partition_max_bytes": 1} for number in range(MANY_ITEMS)]
    send_eight(victim, ApiKey.FETCH, 12, topics=[{"topic": "t", "partitions": rows}], max_wait_ms=0, max_bytes=1)


def items_of_a_commit(victim: Victim) -> None:
    """A million partitions, most of which there are not."""
    with Client(victim.port) as client:
        topic = client.topic(1_000)
    rows = [{"partition_index": number, "committed_offset": 1} for number in range(MANY_ITEMS)]
    topics = [{"name": topic, "partitions": rows}]
    send_eight(victim, ApiKey.OFFSET_COMMIT, 8, group_id="g", generation_id_or_member_epoch=-1, topics=topics)


# What they share


@contextmanager
def patient(victim: Victim) -> Iterator[Client]:
    """A client that waits for as long as an attack may take."""
    with Client(victim.port) as client:
        client.socket.settimeout(LONGEST_S)
        yield client


@contextmanager
def many(victim: Victim, count: int) -> Iterator[list[Client]]:
    """Connections, as many of them as the broker lets in."""
    with ExitStack() as stack:
        clients = []
        for _ in range(count):
            try:
                clients.append(stack.enter_context(Client(victim.port)))
            except OSError:
                break
        yield clients


def discard(client: Client, key: ApiKey, version: int, **fields: Any) -> None:
    """Ask, and read past the answer, or see the connection closed."""
    client.start(key, version, **fields)
    client.opened.pop()
    try:
        left = int.from_bytes(client._take(4), "big")
        while left > 0:
            left -= len(client._take(min(left, 1 << 16)))
    except ConnectionClosed:
        return


def send_eight(victim: Victim, key: ApiKey, version: int, **fields: Any) -> None:
    """Send a request eight times without waiting, and read past the answers."""
    with patient(victim) as client:
        client.metadata()  # the first request of a connection has to be short
        frame = client.frame(key, version, request(key, fields))
        sender = threading.Thread(target=lambda: [client.raw(frame) for _ in range(8)])
        sender.start()
        for _ in range(8):
            left = int.from_bytes(client._take(4), "big")
            while left > 0:
                left -= len(client._take(min(left, 1 << 16)))
        sender.join()


def ask_for_transactions(victim: Victim, pattern: str) -> None:
    with patient(victim) as client:
        discard(client, ApiKey.LIST_TRANSACTIONS, 2, transactional_id_pattern=pattern)


def send_large(victim: Victim, start: bytes, item: bytes, size: int = 100 << 20) -> None:
    """A frame of 100 MB: this, and then tags."""
    count = (size - len(start) - 8) // len(item)
    frame = start + uvarint_bytes(count) + item * count
    with patient(victim) as client:
        try:
            client.raw(struct.pack(">i", len(frame)) + frame)
            client.next_frame()
        except (ConnectionClosed, OSError):
            return


def send_bombs(victim: Victim, **configs: str) -> None:
    record, count = b"\x0e\0\0\0\2k\1\0", 2_000_000
    bomb = around(Codec.ZSTD, bytes(compress(Codec.ZSTD, record * count)), count)
    with patient(victim) as client:
        topic = client.topic(10, **configs)
        rows = [{"index": index, "records": bomb} for index in range(10)]
        topics = [{"name": topic, "partition_data": rows}]
        discard(client, ApiKey.PRODUCE, 9, acks=-1, timeout_ms=10_000, topic_data=topics)


# Running them

ATTACKS: dict[str, tuple[Attack, dict[str, Any]]] = {
    "1,100 idle connections, then new segments": (idle_connections, {}),
    "the same, the soft limit alone": (idle_connections, {"ulimit": ("-Sn 1024",)}),
    "ListTransactions, nested pattern": (nested_pattern, {}),
    "ListTransactions, pattern over long ids": (pattern_over_long_ids, {}),
    "15 million records, then ListOffsets by time": (records_by_the_million, {}),
    "100 MB of tags in the body": (body_tags, {}),
    "100 MB of tags in the header": (header_tags, {}),
    "ten bombs, compacted topic": (bombs_to_be_compacted, {}),
    "ten bombs, topic of gzip": (bombs_to_be_compressed, {}),
    "40 fetches of 55 MB unread": (unread_fetches, {}),
    "600 unfinished frames": (unfinished_frames, {}),
    "DescribeConfigs of the broker 5,000 times": (configs_again_and_again, {}),
    "DescribeGroups of a group 20,000 times": (groups_again_and_again, {}),
    "10,000 joins with 32 KB client ids": (joins_with_long_client_ids, {}),
    "200 members of 1 MB each": (large_members, {"settings": {"group.initial.rebalance.delay.ms": 1_500}}),
    "128 silent HTTP connections": (silent_http, {"http": True}),
    "ListGroups of 200,000 groups": (list_groups, {"seeds": committed(GROUPS)}),
    "DescribeGroups of 10,000 groups of 10": (describe_groups, {"seeds": with_members(TEAMS, 10), "most_ms": 20}),
    "DeleteGroups of 200,000 names": (delete_groups, {"seeds": committed(MANY_NAMES // 5)}),
    "settings of 3,000 groups beside 2,000 topics": (
        settings_of_groups,
        {"topics": [f"t{number}" for number in range(2_000)]},
    ),
    "a million topics in Metadata": (items_of_metadata, {}),
    "a million partitions in Fetch": (items_of_a_fetch, {}),
    "a million partitions in OffsetCommit": (items_of_a_commit, {}),
}


def measure(name: str) -> Cost:
    """Let one attack happen to a broker of its own."""
    attack, options = ATTACKS[name]
    options = {"ulimit": (DESCRIPTORS,), "seeds": (), "most_ms": P99_MS} | options
    cost = Cost(name, most_ms=options.pop("most_ms"))
    with tempfile.TemporaryDirectory() as folder:
        if seeds := options.pop("seeds"):
            seed(folder, seeds)
        _suffer(cost, attack, folder, options)
    return cost


def _suffer(cost: Cost, attack: Attack, folder: str, options: dict[str, Any]) -> None:
    is_ended = False
    with Victim(folder, **options) as victim:
        serve(victim)
        idle, cpu_s = victim.rss_bytes(), victim.cpu_s()
        victim.forget_peak()
        watchdog = threading.Timer(LONGEST_S, os.kill, (victim.pid, signal.SIGKILL))
        watchdog.start()
        try:
            with victim.calm() as felt:
                time.sleep(0.2)
                until_s = time.monotonic() + FELT_S
                try:
                    attack(victim)
                except (AssertionError, ConnectionClosed, OSError) as error:
                    cost.fault = _told(error)
                is_ended = watchdog.finished.is_set()
                watchdog.cancel()
                if not is_ended:
                    cost.cpu_s, cost.memory_bytes = victim.cpu_s() - cpu_s, victim.peak_bytes() - idle
                    time.sleep(max(0.0, until_s - time.monotonic()))
            cost.heartbeats, cost.p99_ms, cost.longest_ms = felt.heartbeats, felt.p99_ms, felt.longest_ms
            serve(victim)
        except (AssertionError, ConnectionClosed, OSError) as error:
            cost.fault = f"ended after {LONGEST_S} s" if is_ended else cost.fault or _told(error)
        finally:
            watchdog.cancel()


def _told(error: Exception) -> str:
    return (str(error) or repr(error)).splitlines()[0][:80]


def serve(victim: Victim) -> None:
    """A new guest produces, fetches and joins.

    Raises:
        AssertionError: it cannot.
    """
    with Client(victim.port, "new") as client:
        topic = client.topic()
        assert client.produce(topic).error_code == 0
        assert client.fetch(topic).records
        client.stable(topic)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.attacks", description=__doc__)
    parser.add_argument("words", nargs="*", help="only attacks with one of these words in their names")
    words = parser.parse_args().words
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    print(HEAD)
    over = 0
    for name in ATTACKS:
        if not words or any(word in name for word in words):
            cost = measure(name)
            over += cost.is_over
            print(cost.row(), flush=True)
    print(f"{over} over budget")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
