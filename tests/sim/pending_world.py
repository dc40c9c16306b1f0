"""Groups that store offsets, in transactions and without, over a log whose appends are slow and fail.

What the coordinator shows is held against the log by the plain rule: an offset counts unless another with a larger
record offset does, and one of a transaction only once the log has the marker that commits it.
"""

from __future__ import annotations

from random import Random
from typing import Any

from ottla.broker.core.groups.config import GroupConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.offsets_topic import CoordinatorRecord, GroupKey, OffsetValue, decode_key, decode_value
from tests.core.world import InTransaction, Marker, World
from tests.sim.kernel import Broken, expect
from tests.support.requests import commit_fields, delete_offsets_fields, offset_fetch_fields, txn_commit_fields

GROUPS = ("a", "b", "c")
TOPICS = ("t", "u")
PARTITIONS = 2
SHARDS = 2
RETENTION_MS = 100_000

Place = tuple[str, str, int]
"""Group, topic, partition."""


class PendingWorld:
    """See the module. ``simulate`` takes random steps and raises `Broken` at the first one that goes wrong."""

    def __init__(self, seed: int, steps: int = 80) -> None:
        self.rng = Random(f"pending {seed}")
        self.steps = steps
        config = GroupConfig(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=10_000)
        self.world = World(config, SHARDS)
        self.world.load()
        self.world.hold = True
        self.fails = self.rng.random() < 0.5
        self.expires = self.rng.random() < 0.3
        self.next_offset = 1
        self.open: dict[int, dict[int, None]] = {}
        """Producer id → the shards in which its transaction may have something."""

    def simulate(self) -> None:
        steps = [self.commit, self.commit_in_transaction, self.end, self.delete, self.log, self.restart, self.wait]
        for _ in range(self.steps):
            self.rng.choices(steps, (3, 6, 3, 1, 6, 0.4, 1 if self.expires else 0))[0]()
            self.world.settle()
            self.check()
        for producer_id in list(self.open):
            self._end(producer_id, commit=True)
        self.check()

    # Steps

    def _place(self) -> Place:
        return self.rng.choice(GROUPS), self.rng.choice(TOPICS), self.rng.randrange(PARTITIONS)

    def _offset(self) -> int:
        self.next_offset += 1
        return self.next_offset

    def commit(self) -> None:
        group, topic, partition = self._place()
        self.world.send("c", ApiKey.OFFSET_COMMIT, 8, commit_fields(group, [(topic, partition, self._offset())]))

    def commit_in_transaction(self) -> None:
        group, topic, partition = self._place()
        producer_id = self.rng.randrange(3)
        fields = txn_commit_fields("", (producer_id, 0), group, [(topic, partition, self._offset())])
        self.open.setdefault(producer_id, {})[coordinator_partition(group, SHARDS)] = None
        self.world.send("p", ApiKey.TXN_OFFSET_COMMIT, 5, fields)

    def end(self) -> None:
        if self.open:
            self._end(self.rng.choice(list(self.open)), commit=self.rng.random() < 0.6)

    def _end(self, producer_id: int, *, commit: bool) -> None:
        for shard in self.open.pop(producer_id):
            self.world.end_transaction(shard, producer_id, commit=commit)
        self.world.settle()

    def delete(self) -> None:
        group, topic, partition = self._place()
        known = self._known() if not self.world.held else []
        self.world.appends.clear()
        match self.rng.randrange(3):
            case 0:
                fields = delete_offsets_fields(group, [(topic, partition)])
                self.world.send("admin", ApiKey.OFFSET_DELETE, 0, fields)
                doomed = [place for place in known if place == (group, topic, partition)]
            case 1:
                self.world.send("admin", ApiKey.DELETE_GROUPS, 2, {"groups_names": [group]})
                doomed = [place for place in known if place[0] == group]
            case _:
                self.world.coordinator.topic_deleted(topic, self.world.now_ms, self.world.wall_ms)
                self.world.settle()
                doomed = [place for place in known if place[1] == topic]
        forgotten = set(doomed) - self._tombstones()
        expect("everything that is deleted gets a tombstone, but for", forgotten, set())

    def _known(self) -> list[Place]:
        """The places that have something in the log."""
        committed, pending = self._naive()
        return [*committed, *(place for table in pending.values() for place in table)]

    def _tombstones(self) -> set[Place]:
        """The places that were deleted since the appends were last cleared; groups have no topic."""
        found: set[Place] = set()
        for append in self.world.appends:
            for record in append.records:
                key = decode_key(record.key)
                if record.value is None and key is not None:
                    if isinstance(key, GroupKey):
                        found.add((key.group_id, "", -1))
                    else:
                        found.add((key.group_id, key.topic, key.partition))
        return found

    def log(self) -> None:
        """Some appends come to their end; one that fails takes the later ones with it."""
        for _ in range(self.rng.randint(1, 3)):
            if not self.world.held:
                return
            if self.fails and self.rng.random() < 0.2:
                for _ in range(len(self.world.held)):
                    self.world.complete(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                return
            self.world.complete()

    def restart(self) -> None:
        self.world.restart()

    def wait(self) -> None:
        _, pending = self._naive()
        self.world.appends.clear()
        self.world.advance_to(self.world.now_ms + self.rng.choice((5_000, 30_000, 120_000)))
        kept = {place for table in pending.values() for place in table}
        kept |= {(group, "", -1) for group, _, _ in kept}
        expect("nothing that is pending expires", self._tombstones() & kept, set())

    # What must hold

    def check(self) -> None:
        committed, pending = self._naive()
        self.world.check_log()
        for group in GROUPS:
            for stable in (False, True):
                answer = self._fetched(group, stable=stable)
                if answer is None:
                    continue  # waits for an append
                for (topic, partition), (offset, error) in answer.items():
                    place = group, topic, partition
                    if stable and any(place in table for table in pending.values()):
                        wanted = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
                    else:
                        wanted = (committed.get(place, (0, -1))[1], ErrorCode.NONE)
                    expect(f"the offset of {place}", (offset, error), wanted)
        for ctx in self.world.answered:
            self._check_answer(ctx.answer)
        self.world.answered.clear()

    def _naive(self) -> tuple[dict[Place, tuple[int, int]], dict[int, dict[Place, tuple[int, int]]]]:
        """Place → record offset and committed offset, of what counts and, by producer, of what is pending."""
        committed: dict[Place, tuple[int, int]] = {}
        pending: dict[int, dict[Place, tuple[int, int]]] = {}
        for number, (shard, logged) in enumerate(self.world.log):
            if isinstance(logged, Marker):
                self._naive_end(committed, pending, shard, logged)
                continue
            producer_id = logged.producer_id if isinstance(logged, InTransaction) else -1
            record: CoordinatorRecord = logged.record if isinstance(logged, InTransaction) else logged
            key = decode_key(record.key)
            if key is None or isinstance(key, GroupKey):
                continue
            place = key.group_id, key.topic, key.partition
            if record.value is None:
                committed.pop(place, None)
                for table in pending.values():
                    table.pop(place, None)
                continue
            value = number, decode_value(OffsetValue, record.value).offset
            if producer_id >= 0:
                pending.setdefault(producer_id, {})[place] = value
            else:
                committed[place] = value
        return committed, pending

    def _naive_end(self, committed: Any, pending: Any, shard: int, marker: Marker) -> None:
        table = pending.get(marker.producer_id, {})
        for place in [place for place in table if coordinator_partition(place[0], SHARDS) == shard]:
            value = table.pop(place)
            if marker.commit and value[0] > committed.get(place, (-1, -1))[0]:
                committed[place] = value

    def _fetched(self, group: str, *, stable: bool) -> dict[tuple[str, int], tuple[int, ErrorCode]] | None:
        if stable and self.world.held:
            return None
        topics = dict.fromkeys(TOPICS, range(PARTITIONS))
        fields = offset_fetch_fields(group, topics, stable=stable)
        answer = self.world.send("reader", ApiKey.OFFSET_FETCH, 8, fields).answer
        if answer is None:
            raise Broken("a fetch waits though nothing is on its way")
        return {
            (topic.name, item.partition_index): (item.committed_offset, ErrorCode(item.error_code))
            for topic in answer.groups[0].topics
            for item in topic.partitions
        }

    def _check_answer(self, answer: Any) -> None:
        if type(answer).__name__ != "TxnOffsetCommitResponse":
            return
        for topic in answer.topics:
            for item in topic.partitions:
                code = ErrorCode(item.error_code)
                if code not in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                    raise Broken(f"a good commit hears {code.name}")
