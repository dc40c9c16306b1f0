"""What the database has at the end, straight from its tables, and whether it may be so.

The rows of a log have no gap but where it is compacted, no overlap and no falling epoch, and each is under an epoch
whose start was noted; `tests.sim.cluster.history` judges that. What was noted of leaders is a chain: each epoch was
given once, and the last one is the log's. Heads say the same as the columns beside them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.protocol.batch import LEADER_EPOCH_AT, MAGIC_AT, parse_header
from ottla.protocol.internal_topics import INTERNAL_TOPICS
from ottla.protocol.records import decode_batch
from tests.chaos.ledger import Place
from tests.chaos.postgres.servers import Servers
from tests.sim.cluster.history import Batch, Begun, Change, History, Inserted, Led, Removed


class Row(NamedTuple):
    """A row of a log."""

    log_id: int
    base: int
    last: int
    epoch: int
    head: bytes
    body: bytes


@dataclass(frozen=True)
class Tables:
    """What is read of the database. ``logs`` are those that are not deleted, with their epochs."""

    rows: Sequence[Row]
    logs: Mapping[int, int]
    audit: Sequence[Led]
    epochs: Sequence[Begun]
    places: Mapping[int, Place]

    def anomalies(self) -> Iterator[str]:
        """Everything that may not be so, in words."""
        history = History()
        history.changes += sorted(self.audit)
        history.changes += self.epochs
        ends: dict[int, int] = {}
        for row in self.rows:
            place = self.places.get(row.log_id)
            if place is None:
                continue
            history.changes += _as_changes(row, ends.get(row.log_id, 0), is_compacted=place[0] in INTERNAL_TOPICS)
            ends[row.log_id] = row.last + 1
            yield from self._head(row, place)
        yield from (f"{rule}: {what}" for rule, what in history.anomalies())
        yield from self._chain()

    def _head(self, row: Row, place: Place) -> Iterator[str]:
        header = parse_header(row.head + row.body)
        epoch = int.from_bytes(row.head[LEADER_EPOCH_AT:MAGIC_AT], "big")
        if (header.base_offset, header.last_offset, epoch) != (row.base, row.last, row.epoch):
            yield f"head: of {place} says {header}, epoch {epoch}, beside {row[:4]}"

    def _chain(self) -> Iterator[str]:
        noted: dict[int, list[int]] = defaultdict(list)
        for led in sorted(self.audit):
            noted[led.log_id].append(led.epoch)
        for log_id, epoch in self.logs.items():
            if noted[log_id] != list(range(epoch + 1)):
                yield f"audit: {self.places.get(log_id)} has epoch {epoch}, noted are {noted[log_id]}"
        for row in self.rows:
            if row.log_id in self.places and row.epoch not in noted[row.log_id]:
                yield f"audit: nobody led {self.places[row.log_id]} under epoch {row.epoch} of offset {row.base}"

    def records(self) -> dict[Place, list[tuple[int, str]]]:
        """Offsets and values by place, but for those of internal topics and markers."""
        found: dict[Place, list[tuple[int, str]]] = {place: [] for place in self.places.values()}
        for row in self.rows:
            place = self.places.get(row.log_id)
            data = row.head + row.body
            if place is not None and place[0] not in INTERNAL_TOPICS and not parse_header(data).is_control:
                found[place] += [(one.offset, (one.value or b"").decode()) for one in decode_batch(data)]
        return found


def _as_changes(row: Row, end: int, *, is_compacted: bool) -> Iterable[Change]:
    if is_compacted and row.base > end:
        hole = Batch(row.log_id, end, row.base - 1, f"x{row.log_id}", end)
        yield Inserted(hole, row.epoch)
        yield Removed(row.log_id, end)
    yield Inserted(Batch(row.log_id, row.base, row.last, f"log {row.log_id}", row.base), row.epoch)


def tables_of(servers: Servers) -> Tables:
    """What the primary has."""
    ((meta,),) = servers.ask("SELECT meta FROM ottla.cluster")
    document: Any = json.loads(meta)
    places = {
        log_id: (name, partition)
        for name, topic in document["state"]["topics"].items()
        for partition, log_id in enumerate(document["logs"][topic["topic_id"]])
    }
    rows = servers.ask(
        "SELECT b.log_id, b.base_offset, b.last_offset, b.leader_epoch, b.head, b.body FROM ottla.pbatch b"
        " JOIN ottla.plog p USING (log_id) WHERE b.last_offset >= p.log_start AND NOT p.is_deleted ORDER BY 1, 2"
    )
    logs = servers.ask("SELECT log_id, leader_epoch FROM ottla.plog WHERE NOT is_deleted")
    audit = servers.ask("SELECT log_id, epoch, node_id, incarnation FROM ottla.audit")
    epochs = servers.ask("SELECT log_id, epoch, start_offset FROM ottla.pepoch")
    return Tables(
        [Row(*row) for row in rows],
        dict(tuple(log) for log in logs),
        [Led(*row) for row in audit],
        [Begun(*row) for row in epochs],
        places,
    )
