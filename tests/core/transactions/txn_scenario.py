"""The steps of scenarios of the transaction coordinator; see `tests.core.steps`.

A producer is named by its transactional id, and goes by the id and epoch that it was told last; ``x@101:0`` is the one
of id 101 and epoch 0 that uses ``x``. A line with ``!`` is a marker that is to be written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ottla.broker.core.effects import WriteMarker
from ottla.broker.core.transactions.machine import Machine
from ottla.broker.core.transactions.records import snapshot
from ottla.broker.core.transactions.requests import Question
from ottla.broker.core.transactions.transaction import Snapshot
from ottla.broker.settings import Settings
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.offsets_topic import CoordinatorRecord
from ottla.protocol.records import TopicPartition
from ottla.protocol.transaction_log import decode_transaction_key
from tests.core.rendering import error_name, quoted
from tests.core.scenario_text import duration
from tests.core.steps import Steps
from tests.core.transactions.txn_world import World
from tests.core.world import Ctx
from tests.support.requests import Producer, add_partitions_fields, init_producer_fields, of_transaction

OFFSETS = TopicPartition("__consumer_offsets", 7)


class TransactionPlay(Steps):
    """Runs the steps of one scenario."""

    SETTINGS: ClassVar = {
        "abort_interval": "transaction_abort_timed_out_transaction_cleanup_interval_ms",
        "expiration": "transactional_id_expiration_ms",
        "tombstone_batch": "tombstone_batch_bytes",
    }

    def __init__(self) -> None:
        super().__init__()
        self.producers: dict[str, Producer] = {}
        self.failed: WriteMarker | None = None

    def new_world(self) -> World:
        settings = dict(self.settings)
        batch_bytes = settings.pop("tombstone_batch_bytes", Machine.tombstone_batch_bytes)
        return World(Settings(**settings), tombstone_batch_bytes=batch_bytes)

    def events(self, world: World) -> Iterator[str]:
        for event, fields in world.events:
            yield " ".join(("*", event, *(f"{name}={value}" for name, value in fields.items())))

    def asked_for(self, world: World) -> Iterator[str]:
        for marker in world.asked_markers:
            ends = marker.marker
            outcome = "commit" if ends.commit else "abort"
            who = f"{ends.producer_id}:{ends.producer_epoch}"
            kind = f"v{ends.transaction_version} by {ends.coordinator_epoch}"
            yield f"! {outcome} {place_text(marker.tp)} {who} {kind}"

    def forget(self, world: World) -> None:
        super().forget(world)
        world.asked_markers.clear()

    def learn(self, ctx: Ctx) -> None:
        if getattr(ctx.answer, "producer_id", -1) >= 0:
            self.producers[ctx.client] = ctx.answer.producer_id, ctx.answer.producer_epoch

    def render_record(self, record: CoordinatorRecord) -> str:
        name = decode_transaction_key(record.key)
        return f"{name} tombstone" if record.value is None else f"{name} {snapshot_text(snapshot(record.value))}"

    def render_answer(self, answer: Any) -> str:
        if isinstance(answer, Mapping):
            return " ".join(("Verify", *(f"{place_text(tp)}={code.name}" for tp, code in answer.items())))
        name = type(answer).__name__.removesuffix("Response")
        return f"{name} {RENDERERS[name](answer)}".rstrip()

    def _who(self, word: str) -> tuple[str, Producer]:
        name, _, given = word.partition("@")
        if given:
            producer_id, epoch = given.split(":")
            return name, (int(producer_id), int(epoch))
        return name, self.producers.get(name, (-1, -1))

    # Steps

    def do_init(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``init ID[@PRODUCER:EPOCH] [timeout= v=]``: with a producer, it is the one that goes on."""
        name, _, given = words[0].partition("@")
        expected = self._who(words[0])[1] if given else (-1, -1)
        fields = init_producer_fields(name, timeout_ms=duration(options.get("timeout", "60s")), expected=expected)
        world.send(name, ApiKey.INIT_PRODUCER_ID, int(options.get("v", 5)), fields)

    def do_init_many(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``init-many COUNT``: that many ids."""
        for number in range(int(words[0])):
            self.do_init(world, [f"id-{number:03}"], options)

    def do_add(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``add ID[@PRODUCER:EPOCH] TOPIC-PARTITION … [verify] [refused=TOPIC-PARTITION] [v=]``: AddPartitionsToTxn"""
        name, who = self._who(words[0])
        found = [place(word) for word in words[1:] if word != "verify"]
        fields = add_partitions_fields(of_transaction(name, who), found, verify_only="verify" in words)
        self._add(world, name, fields, options | {"v": options.get("v", "3")})

    def do_add_each(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``add-each ID[@PRODUCER:EPOCH]/TOPIC-PARTITION[/verify] …``: several transactions in one request."""
        rows = []
        for word in words:
            producer, where, *verify = word.split("/")
            whose = of_transaction(*self._who(producer))
            rows += add_partitions_fields(whose, [place(where)], verify_only=bool(verify))["transactions"]
        self._add(world, "broker", {"transactions": rows}, {"v": "4"})

    def _add(self, world: World, client: str, fields: dict[str, Any], options: dict[str, str]) -> None:
        refused = [place(word) for word in options.get("refused", "").split(",") if word]
        codes = dict.fromkeys(refused, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        world.send(client, ApiKey.ADD_PARTITIONS_TO_TXN, int(options["v"]), fields, codes)

    def do_offsets(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``offsets ID[@PRODUCER:EPOCH] [v=]``: AddOffsetsToTxn"""
        name, who = self._who(words[0])
        fields = of_transaction(name, who) | {"group_id": "g"}
        world.send(name, ApiKey.ADD_OFFSETS_TO_TXN, int(options.get("v", 4)), fields, OFFSETS)

    def do_end(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``end ID[@PRODUCER:EPOCH] commit|abort [v=]``"""
        name, who = self._who(words[0])
        fields = of_transaction(name, who) | {"committed": words[1] == "commit"}
        world.send(name, ApiKey.END_TXN, int(options.get("v", 4)), fields)

    def do_verify(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``verify ID[@PRODUCER:EPOCH] TOPIC-PARTITION … [adds]``: what Produce and TxnOffsetCommit ask."""
        name, who = self._who(words[0])
        places = [place(word) for word in words[1:] if word != "adds"]
        world.enter(Ctx(name, 0, Question(name, *who, places, "adds" in words)), "verify")

    def do_describe(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``describe ID …``"""
        world.send("admin", ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": words})

    def do_list(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``list [states=A,B] [producers=1,2] [duration=]``"""
        filters: dict[str, Any] = {"duration_filter": int(options.get("duration", "-1"))}
        filters["state_filters"] = [name for name in options.get("states", "").split(",") if name]
        filters["producer_id_filters"] = [int(word) for word in options.get("producers", "").split(",") if word]
        world.send("admin", ApiKey.LIST_TRANSACTIONS, 1, filters)

    def do_marked(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``marked TOPIC-PARTITION …``: markers that are held are written."""
        for word in words:
            world.mark(place(word))

    def do_marker(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``marker fails ERROR TOPIC-PARTITION``"""
        self.failed = world.mark(place(words[2]), ErrorCode[words[1]])

    def do_marked_late(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``marked-late``: the marker that failed last was written after all."""
        assert self.failed is not None
        world.marked(self.failed)

    def do_leaders_changed(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``leaders-changed``: partitions may be led by others now."""
        world.coordinator.leaders_changed(world.now_ms, world.wall_ms)

    def do_ids(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``ids COUNT``: so many producer ids are at hand."""
        world.ids_left = int(words[0])

    def do_at_epoch(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``at-epoch ID EPOCH``: a producer that has come so far; the broker is started again."""
        self.do_init(world, words[:1], {})
        self.learn(world.answered.pop())
        self.producers[words[0]] = self.producers[words[0]][0], int(words[1])
        world.rewrite(words[0], producer_epoch=int(words[1]))

    def do_reload(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``reload ID``: the partition of an id is given up and being loaded anew."""
        partition = coordinator_partition(words[0], world.partition_count)
        world.coordinator.unload(partition, world.now_ms, world.wall_ms)
        world.coordinator.load_started(partition, world.now_ms)

    def do_show(self, world: World, words: list[str], options: dict[str, str]) -> list[str]:
        """``show ID``: what memory has of it."""
        tx = world.snapshot(words[0])
        return [f"{words[0]} {snapshot_text(tx)}"]


def place(word: str) -> TopicPartition:
    topic, _, partition = word.rpartition("-")
    return OFFSETS if topic == "offsets" else TopicPartition(topic, int(partition))


def place_text(tp: TopicPartition) -> str:
    return "offsets-7" if tp == OFFSETS else f"{tp.topic}-{tp.partition}"


def snapshot_text(tx: Snapshot) -> str:
    parts = [f"{tx.state} {tx.producer_id}:{tx.producer_epoch} v{tx.client_version} timeout={tx.timeout_ms}"]
    if tx.previous_producer_id >= 0:
        parts.append(f"previous={tx.previous_producer_id}")
    if tx.next_producer_id >= 0:
        parts.append(f"next={tx.next_producer_id}")
    if tx.start_ms >= 0:
        parts.append(f"since {tx.start_ms}")
    return " ".join((*parts, f"at {tx.update_ms}", f"[{' '.join(map(place_text, sorted(tx.partitions)))}]"))


def _with_producer(answer: Any) -> str:
    """The error, or the producer if the answer names one."""
    if answer.error_code or answer.producer_id < 0:
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
        return error_name(answer)
    return f"NONE {answer.producer_id}:{answer.producer_epoch}"


def _added(answer: Any) -> str:
    many = [(row.transactional_id, row.topic_results) for row in answer.results_by_transaction]
    shown = []
    for name, topics in many or [("", answer.results_by_topic_v3_and_below)]:
        codes = " ".join(
            f"{topic.name}-{row.partition_index}={ErrorCode(row.partition_error_code).name}"
            for topic in topics
            for row in topic.results_by_partition
        )
        shown.append(f"{name}: {codes}" if len(many) > 1 else codes)
    return "; ".join(shown)


def _described(answer: Any) -> str:
    shown = []
    for row in answer.transaction_states:
        places = [place_text(TopicPartition(t.topic, partition)) for t in row.topics for partition in t.partitions]
        who = f"{row.producer_id}:{row.producer_epoch} timeout={row.transaction_timeout_ms}"
        state = f"{row.transaction_state} {who} since {row.transaction_start_time_ms} [{' '.join(places)}]"
        shown.append(f"{quoted(row.transactional_id)} {error_name(row) if row.error_code else state}")
    return "; ".join(shown)


def _listed(answer: Any) -> str:
    rows = sorted((row.transactional_id, row.producer_id, row.transaction_state) for row in answer.transaction_states)
    unknown = [f"unknown={name}" for name in answer.unknown_state_filters]
    return " ".join([error_name(answer), *unknown, *(f"{name}({number} {state})" for name, number, state in rows)])


RENDERERS = {
    "InitProducerId": _with_producer,
    "EndTxn": _with_producer,
    "AddPartitionsToTxn": _added,
    "AddOffsetsToTxn": error_name,
    "DescribeTransactions": _described,
    "ListTransactions": _listed,
}
