"""What is checked of the tables at the end finds what it is there to find."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.broker.storage.postgres.lane import Lane, Send
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.records import HEADER_SIZE, Record
from tests.chaos.postgres.rows import Row, Tables
from tests.sim.cluster.history import Begun, Led
from tests.support.batches import build_batch

LOG = 7


def row(base: int, epoch: int) -> Row:
    """A row of two records, as a lane makes it."""
    lane = Lane()
    lane.lead(LOG, epoch, base)
    lane.connected()
    batch = build_batch([Record(number, 0, None, b"v%d" % (base + number)) for number in range(2)])
    lane.append(LOG, bytes(batch[:HEADER_SIZE]), batch[HEADER_SIZE:], count=2, max_timestamp_ms=0, token=None)
    (sent,) = lane.effects
    assert isinstance(sent, Send)
    (made,) = sent.rows
    return Row(LOG, base, base + 1, epoch, bytes(made.head), bytes(made.body))


def tables(*rows: Row) -> Tables:
    """A log that was led by two nodes, one after the other."""
    return Tables(
        rows or (row(0, 0), row(2, 0), row(4, 1)),
        {LOG: 1},
        [Led(LOG, 0, 1, 1), Led(LOG, 1, 2, 2)],
        [Begun(LOG, 0, 0), Begun(LOG, 1, 4)],
        {LOG: ("orders", 0)},
    )


def rules(found: Tables) -> set[str]:
    return {what.partition(":")[0] for what in found.anomalies()}


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert rules(tables()) == set()
    assert tables().records() == {("orders", 0): [(offset, f"v{offset}") for offset in range(6)]}


@pytest.mark.parametrize(
    ("found", "rule"),
    [
        (tables(row(0, 0), row(4, 1)), "gap"),
        (tables(row(0, 0), row(1, 0)), "overlap"),
        (tables(row(0, 1), row(2, 0)), "falling epoch"),
        (replace(tables(), epochs=[Begun(LOG, 0, 0)]), "unnoted epoch"),
        (replace(tables(), audit=[Led(LOG, 0, 1, 1)]), "audit"),
        (replace(tables(), audit=[*tables().audit, Led(LOG, 1, 3, 3)]), "two leaders of an epoch"),
        (tables(row(0, 0)._replace(head=row(2, 0).head)), "head"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_found(found: Tables, rule: str) -> None:
    assert rule in rules(found)


def test_a_compacted_log_may_have_gaps() -> None:
    found = replace(tables(row(0, 0), row(4, 1)), places={LOG: (OFFSETS_TOPIC, 0)})
    assert rules(found) == set()
