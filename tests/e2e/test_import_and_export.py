"""`ottla cluster import`, `export` and `restored` with a real PostgreSQL: what clients see before and after."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from examples.cluster.postgresql import USER, PostgresServer, programs
from ottla.protocol.apis import ApiKey
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.records import iter_batches
from ottla.testing.process import BrokerProcess
from tests.cli.commands import Ottla
from tests.support.client import Client, batch
from tests.support.clients import confluent
from tests.support.postgresql import running_server
from tests.support.rules import WITH_RULES
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(programs() is None, reason="there is no PostgreSQL on this machine: install it"),
]

SETTINGS = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "log.segment.bytes": 1_000,
    "log.cleaner.enable": False,
    **WITH_RULES,
}
CLEANING = {"log.cleaner.enable": True, "log.cleaner.backoff.ms": 50}
TOPICS = {"plain": 3, "compact": 1, "trimmed": 1, "paid": 1}
COMPACTED = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.01",
    "min_compaction_lag_ms": 0,
}
PATIENCE_S = 30
EVERY_RULE = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


class Node(BrokerProcess):
    """A node of a cluster over a database."""

    def __init__(self, url: str, node_id: int, schema: str, port: int = 0) -> None:
        settings = {**SETTINGS, "node.id": node_id, "ottla.cluster.schema": schema}
        super().__init__(settings=settings, port=port, arguments=("--cluster", url))

    def command(self) -> list[str]:
        return [word for word in super().command() if word != "--ephemeral"]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture(scope="module")
def url(server: PostgresServer) -> str:
    return f"postgresql://{USER}@127.0.0.1:{server.port}/postgres?sslmode=disable"


@pytest.fixture
def schema(request: pytest.FixtureRequest) -> str:
    """A schema for each test."""
    return f"test_{abs(hash(request.node.nodeid))}"


class Clients:
    """Who uses the broker of a test, and goes on wherever its logs are."""

    def __init__(self, bootstrap: str) -> None:
        self.steady = confluent.producer(bootstrap, enable_idempotence=True)
        self.buyer = confluent.producer(bootstrap, "buyer", transaction_timeout_ms=600_000)
        self.joined: Any = None
        self.sent = 0

    def fill(self, bootstrap: str, port: int) -> None:
        """Have something of everything in the broker."""
        for topic, count in TOPICS.items():
            confluent.create_topics(bootstrap, {topic: count}, **(COMPACTED if topic == "compact" else {}))
        for codec in ("gzip", "lz4", "zstd"):
            made = confluent.producer(bootstrap, compression_type=codec)
            for number in range(300):
                made.produce("plain", f"{codec} {number}" * 10, partition=number % 3)
            assert made.flush(PATIENCE_S) == 0
        with closing(Client(port)) as client:
            for number in range(40):
                client.produce("compact", batch(b"%d" % number, key=b"key %d" % (number % 3)))
                client.produce("trimmed", batch(b"%d" % number, b"and", b"more"))
            client.delete_records("trimmed", 31)  # in the middle of a batch
            wait_for(lambda: has_gaps(client, "compact"), "compaction", timeout_s=PATIENCE_S)
            client.commit("lonely", "trimmed", 33)
            self.joined = client.stable("crew", session_ms=300_000)
        self.go_on()
        for outcome in (Producer.commit_transaction, Producer.abort_transaction):
            self.buyer.begin_transaction()
            self.buyer.produce("paid", outcome.__name__, partition=0)
            outcome(self.buyer, PATIENCE_S)
        self.buyer.begin_transaction()
        self.buyer.produce("paid", "open", partition=0)
        assert self.buyer.flush(PATIENCE_S) == 0
        admin = confluent.admin(bootstrap)
        told = [UserScramCredentialUpsertion("alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"x")]
        confluent.result(admin.alter_user_scram_credentials(told))
        pattern = (ResourceType.TOPIC, "plain", ResourcePatternType.LITERAL)
        rule = AclBinding(*pattern, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
        confluent.result(admin.create_acls([rule]))

    def go_on(self) -> None:
        """Produce in order, each record once."""
        for _ in range(10):
            self.steady.produce("plain", f"steady {self.sent}", partition=0)
            self.sent += 1
        assert self.steady.flush(PATIENCE_S) == 0

    def see(self, bootstrap: str, port: int, *, ends: bool = False) -> None:
        """What was begun elsewhere goes on here: a group in its generation, a producer, and a transaction."""
        with closing(Client(port)) as client:
            wait_for(lambda: client.heartbeat("crew", self.joined) == 0, "the group", timeout_s=PATIENCE_S)
        self.go_on()
        shown = [message.value().decode() for message in confluent.read_all(bootstrap, "plain")[0]]
        assert [one for one in shown if one.startswith("steady")] == [f"steady {n}" for n in range(self.sent)]
        if ends:
            self.buyer.commit_transaction(PATIENCE_S)
            committed = confluent.read_all(bootstrap, "paid", isolation_level="read_committed")[0]
            assert [message.value() for message in committed] == [b"commit_transaction", b"open"]


def has_gaps(client: Client, topic: str) -> bool:
    records, end = client.read_log(topic)
    return len(records) < end


class Contents(NamedTuple):
    """What clients see of a broker."""

    topics: dict[str, tuple[Any, int, dict[str, str]]]
    logs: dict[tuple[str, int], tuple[int, int, int, bytes]]
    offsets: dict[str, dict[tuple[str, int], int]]
    crew: tuple[str, list[str]]
    users: Any
    rules: Any


def contents(broker: BrokerProcess) -> Contents:
    admin = confluent.admin(broker.bootstrap_servers)
    users = admin.describe_user_scram_credentials().result(PATIENCE_S)
    with closing(Client(broker.port)) as client:
        wait_for(lambda: client.describe("crew").error_code == 0, "the coordinator", timeout_s=PATIENCE_S)
        found = [one for one in client.metadata().topics if one.name in (*TOPICS, OFFSETS_TOPIC)]
        counts = {one.name: len(one.partitions) for one in found}
        crew = client.describe("crew")
        return Contents(
            {one.name: (one.topic_id, counts[one.name], settings(broker, one.name)) for one in found},
            {(name, part): log_of(client, name, part) for name in TOPICS for part in range(counts[name])},
            {group: client.all_committed(group) for group in ("lonely", "crew")},
            (crew.group_state, [member.member_id for member in crew.members]),
            [(one.mechanism, one.iterations) for one in users["alice"].scram_credential_infos],
            admin.describe_acls(EVERY_RULE).result(PATIENCE_S),
        )


def settings(broker: BrokerProcess, topic: str) -> dict[str, str]:
    """What was set of a topic itself."""
    rows = Ottla(broker.bootstrap_servers).json("configs", "describe", topic, "--entity-type", "topics")
    return {one["name"]: one["value"] for one in rows if one.get("source") == "DYNAMIC_TOPIC_CONFIG"}


def log_of(client: Client, topic: str, partition: int) -> tuple[int, int, int, bytes]:
    """Start, end and last stable offset of a partition, and its batches."""
    wait_for(lambda: client.offset(topic, -2, partition=partition).error_code == 0, "the leader", timeout_s=PATIENCE_S)
    start, end = (client.offset(topic, when, partition=partition).offset for when in (-2, -1))
    data, offset = b"", start
    while offset < end:
        told = client.fetch(
            topic, offset, partition=partition, max_wait_ms=500, min_bytes=1, partition_max_bytes=1 << 22
        )
        assert told.error_code == 0
        data += bytes(told.records)
        offset = [header.last_offset for header, _ in iter_batches(data)][-1] + 1
    return start, end, client.offset(topic, -1, partition=partition, level=1).offset, data


def cluster(verb: str, *arguments: object, url: str, schema: str, expect: int = 0) -> Any:
    """Run `ottla cluster …`."""
    where = ("--cluster", url, "--set", f"ottla.cluster.schema={schema}")
    return Ottla().run("cluster", verb, *arguments, *where, expect=expect)


def test_everything_of_a_broker_goes_into_a_cluster(tmp_path: Path, url: str, schema: str) -> None:
    with BrokerProcess(tmp_path / "data", settings={**SETTINGS, **CLEANING}) as broker:
        clients = Clients(broker.bootstrap_servers)
        clients.fill(broker.bootstrap_servers, broker.port)
    with BrokerProcess(tmp_path / "data", settings=SETTINGS, port=broker.port) as broker:
        before = contents(broker)
    told = cluster("import", tmp_path / "data", url=url, schema=schema).stdout
    assert told.startswith("Imported and compared: 7 topics, 13 partitions, ")
    assert "ottla serve --cluster postgresql://" in told
    assert fetched(url, f"SELECT count(*) FROM {schema}.psnap WHERE upto > 0") > 0
    with Node(url, 4, schema, broker.port) as node:
        assert contents(node) == before
        clients.see(node.bootstrap_servers, node.port, ends=True)
        after = contents(node)
        assert "a snapshot of producers" not in node.log_text()
    told = cluster("export", tmp_path / "back", url=url, schema=schema).stdout
    # There is a partition of the topic of events for each of groups now.
    assert told.startswith("Exported and compared: 7 topics, 15 partitions, ") and "--data-dir" in told
    with BrokerProcess(tmp_path / "back", settings=SETTINGS, port=broker.port) as broker:
        assert contents(broker) == after
        clients.see(broker.bootstrap_servers, broker.port)
        assert "a snapshot of producers" not in broker.log_text()
    assert list((tmp_path / "back" / "producers").iterdir())


def test_an_import_goes_on_where_it_was_killed(tmp_path: Path, url: str, schema: str) -> None:
    with BrokerProcess(tmp_path / "data", topics={"large": 2}) as broker:
        made = confluent.producer(broker.bootstrap_servers)
        for number in range(40):
            made.produce("large", os.urandom(900_000), partition=number % 2)
            assert made.flush(PATIENCE_S) == 0
        before = large(broker)
        broker.kill()  # its journal has what is not in segments yet
    where = ("--cluster", url, "--set", f"ottla.cluster.schema={schema}")
    command = [sys.executable, "-m", "ottla.cli", "cluster", "import", str(tmp_path / "data"), *where]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: rows(url, schema) > 0, "the first rows")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert 0 < rows(url, schema) < 40
    with pytest.raises(RuntimeError, match=f"`ottla cluster import {tmp_path}/data` was interrupted, or goes on"):
        Node(url, 1, schema).start()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Going on with what was interrupted." in done.stderr
    with Node(url, 1, schema) as node:
        assert large(node) == before


def large(broker: BrokerProcess) -> list[tuple[int, int, int, bytes]]:
    with closing(Client(broker.port)) as client:
        return [log_of(client, "large", partition) for partition in (0, 1)]


def rows(url: str, schema: str) -> int:
    """The batches in the database."""
    try:
        return fetched(url, f"SELECT count(*) FROM {schema}.pbatch")
    except asyncpg.UndefinedTableError:
        return 0


def fetched(url: str, query: str) -> int:
    """The number that a query gives."""

    async def ask() -> int:
        connection = await asyncpg.connect(url)
        try:
            return int(await connection.fetchval(query))
        finally:
            await connection.close()

    return asyncio.run(ask())


def test_the_directory_of_several_nodes(tmp_path: Path, url: str, schema: str) -> None:
    with BrokerProcess(tmp_path / "data", nodes=2, topics={"shared": 4}, settings=SETTINGS) as broker:
        values = written(broker.bootstrap_servers)
        said = cluster("import", tmp_path / "data", url=url, schema=schema, expect=1).stderr
        assert "is in use by another process" in said
    cluster("import", tmp_path / "data", url=url, schema=schema)
    with Node(url, 1, schema) as first, Node(url, 2, schema) as second:
        assert read(f"{first.bootstrap_servers},{second.bootstrap_servers}") == values
    cluster("export", tmp_path / "back", url=url, schema=schema)
    with BrokerProcess(tmp_path / "back") as broker:
        assert read(broker.bootstrap_servers) == values


def written(bootstrap: str) -> dict[int, list[bytes | None]]:
    """What is now in the topic with four partitions."""
    made = confluent.producer(bootstrap)
    for number in range(40):
        made.produce("shared", b"%d" % number, partition=number % 4)
    assert made.flush(PATIENCE_S) == 0
    return read(bootstrap)


def read(bootstrap: str) -> dict[int, list[bytes | None]]:
    found = confluent.read_all(bootstrap, "shared", 0, 1, 2, 3)
    return {partition: [message.value() for message in messages] for partition, messages in found.items()}


def test_what_is_refused(tmp_path: Path, url: str, schema: str) -> None:
    def refusal(verb: str, directory: Path, schema: str = schema) -> str:
        return str(cluster(verb, directory, url=url, schema=schema, expect=1).stderr)

    data, back = tmp_path / "data", tmp_path / "back"
    assert "The cluster has no topics" in refusal("export", back)
    assert f"{tmp_path} is no data directory" in refusal("import", tmp_path)
    with BrokerProcess(data, topics={"shared": 4}) as broker:
        written(broker.bootstrap_servers)
        assert f"{data} is in use by another process" in refusal("import", data)
    with Node(url, 3, schema) as node:
        for verb, directory in (("import", data), ("export", back)):
            said = f"Node 3 of the cluster runs at 127.0.0.1:{node.port}: stop all of them first."
            assert said in refusal(verb, directory)
    assert "The cluster has topics, users or settings of its own" in refusal("import", data)
    back.mkdir()
    (back / "something").touch()
    assert f"{back} is there already" in refusal("export", back)


def test_a_damaged_directory_is_refused_and_its_cluster_does_not_start(tmp_path: Path, url: str, schema: str) -> None:
    for name in ("damaged", "whole"):
        with BrokerProcess(tmp_path / name, topics={"shared": 4}) as broker:
            written(broker.bootstrap_servers)
    segment = tmp_path / "damaged" / "logs" / "shared-2" / f"{0:020d}.log"
    content = segment.read_bytes()
    segment.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    said = cluster("import", tmp_path / "damaged", url=url, schema=schema, expect=1).stderr
    assert "shared-2 is damaged: the CRC is" in said and f"ottla recover {tmp_path}/damaged" in said
    with pytest.raises(RuntimeError, match="was interrupted, or goes on"):
        Node(url, 1, schema).start()
    assert (
        "was interrupted, or goes on" in cluster("export", tmp_path / "back", url=url, schema=schema, expect=1).stderr
    )
    said = cluster("import", tmp_path / "whole", url=url, schema=schema, expect=1).stderr
    assert f"Another import was begun (`ottla cluster import {tmp_path}/damaged`)" in said


def test_after_a_restore_clients_find_out_what_is_gone(url: str, schema: str, server: PostgresServer) -> None:
    """Records came after the backup, were read, and are gone with the restore."""
    dump = f"{server.data}-{schema}.sql"
    with Node(url, 1, schema) as node:
        confluent.create_topics(node.bootstrap_servers, {"orders": 1})
        send(node.bootstrap_servers, "orders", 5)
        server.run("pg_dump", "-d", url, "-n", schema, "-f", dump)
    with Node(url, 1, schema, node.port) as node:  # under an epoch that the backup does not know
        send(node.bootstrap_servers, "orders", 5)
        with closing(Client(node.port)) as client:
            last_id, epoch = (
                client.producer().producer_id,
                client.metadata("orders").topics[0].partitions[0].leader_epoch,
            )
        reader = confluent.consumer(node.bootstrap_servers, auto_offset_reset="error")
        reader.assign([TopicPartition("orders", 0, 0)])
        assert len(reader.consume(10, PATIENCE_S)) == 10
        said = cluster("restored", url=url, schema=schema, expect=1).stderr
        assert f"Node 1 of the cluster runs at 127.0.0.1:{node.port}" in said
    server.run("psql", "-q", "-d", url, "-c", f"DROP SCHEMA {schema} CASCADE")
    server.run("psql", "-q", "-d", url, "-f", dump)
    assert "under epochs 100,000 later" in cluster("restored", url=url, schema=schema).stdout
    with Node(url, 1, schema, node.port), closing(reader):
        (failed,) = reader.consume(1, PATIENCE_S)
        assert failed.error().code() == KafkaError._AUTO_OFFSET_RESET
        assert "log truncation detected at offset 10" in str(failed.error())
        with closing(Client(node.port)) as client:
            wait_for(lambda: client.offset("orders").error_code == 0, "the leader", timeout_s=PATIENCE_S)
            assert leader_epoch(client) >= epoch + 100_000
            places = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}]
            asked = {"replica_id": -1, "topics": [{"topic": "orders", "partitions": places}]}
            end = client.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, **asked).topics[0].partitions[0]
            assert (end.error_code, end.end_offset) == (0, 5)
            assert client.producer().producer_id > last_id + 100_000
    notes = fetched(url, f"SELECT count(*) FROM {schema}.audit WHERE node_id = -1 AND epoch >= 100000")
    assert notes == fetched(url, f"SELECT count(*) FROM {schema}.plog") > 0


def leader_epoch(client: Client) -> int:
    return int(client.metadata("orders").topics[0].partitions[0].leader_epoch)


def send(bootstrap: str, topic: str, count: int) -> None:
    made = confluent.producer(bootstrap)
    for number in range(count):
        made.produce(topic, b"%d" % number, partition=0)
    assert made.flush(PATIENCE_S) == 0
