"""How old unread records are, asked of a broker, and noted in the lake once."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.pipeline import record_times
from ottla.pipeline.cluster import options_of
from ottla.pipeline.config import load
from ottla.pipeline.lake import Lake
from ottla.pipeline.parquet_files import dataset
from ottla.pipeline.record_times import KNOWN_DAYS, Place, look_up
from ottla.pipeline.source.connection import Connection
from ottla.pipeline.source.logs import SourceError
from ottla.pipeline.tables import RECORD_TIMES
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_groups import ListGroupsResponse
from ottla.protocol.records import TopicPartition
from ottla.testing import Broker
from tests.pipeline.source.reading import commit, create, producer, transact
from tests.support.memory import allocations

FIRST_MS = 1_700_000_000_000
TO_COME_MS = 4_000_000_000_000


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker({"offsets.topic.num.partitions": 3}, topics={"orders": 2}) as broker:
        one = producer(broker.bootstrap_servers)
        for number in range(20):
            one.produce("orders", b"x" * 2000, partition=0, timestamp=FIRST_MS + 1000 * number)
        one.produce("orders", b"x", partition=1, timestamp=TO_COME_MS)
        assert one.flush(30) == 0
        yield broker.bootstrap_servers


def known(lake: Lake) -> set[tuple[str, int, int, int]]:
    rows = dataset(lake.where("record_times"), RECORD_TIMES).to_table().to_pylist()
    assert {row["cluster_id"] for row in rows} <= {"c"}
    found = [
        (row["topic"], row["partition"], row["record_offset"], int(row["record_ts"].timestamp() * 1000)) for row in rows
    ]
    assert len(found) == len(set(found))
    return set(found)


def test_of_groups_that_are_behind(servers: str, tmp_path: Path) -> None:
    lake, options = Lake(str(tmp_path)), options_of(load(options={"bootstrap_server": servers}))
    assert (look_up(options, lake, "c"), known(lake)) == (0, set()), "there is no group"
    commit(servers, "slow", "orders", {0: 3})
    commit(servers, "slower", "orders", {0: 1})
    commit(servers, "as-slow", "orders", {0: 3})
    commit(servers, "level", "orders", {0: 20})
    commit(servers, "wrong-clock", "orders", {1: 0})
    assert look_up(options, lake, "c") == 2
    expected = {("orders", 0, 1, FIRST_MS + 1000), ("orders", 0, 3, FIRST_MS + 3000)}
    assert known(lake) == expected
    assert look_up(options, lake, "c") == 0, "what is known is not asked again"
    commit(servers, "slow", "orders", {0: 7})
    assert look_up(options, lake, "c") == 1
    assert known(lake) == expected | {("orders", 0, 7, FIRST_MS + 7000)}


def test_behind_the_marker_of_a_transaction(servers: str, tmp_path: Path) -> None:
    """A group stands there when it has read all before it; the age is that of the record behind it."""
    create(servers, "paid")
    transact(servers, "till", "paid", end="commit", records=5)
    one = producer(servers)
    one.produce("paid", b"next", timestamp=FIRST_MS)
    assert one.flush(30) == 0
    commit(servers, "accounts", "paid", {0: 5})
    lake, options = Lake(str(tmp_path)), options_of(load(options={"bootstrap_server": servers}))
    look_up(options, lake, "c")
    assert ("paid", 0, 5, FIRST_MS) in known(lake)


def test_topics_late_in_the_alphabet_have_their_turn(
    servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first places of all have no age, run after run."""
    monkeypatch.setattr(record_times, "MOST_PLACES", 1)
    create(servers, "zebra")
    one = producer(servers)
    one.produce("zebra", b"x", timestamp=FIRST_MS)
    assert one.flush(30) == 0
    commit(servers, "wrong-clock", "orders", {1: 0})
    commit(servers, "last", "zebra", {0: 0})
    lake, options, chance = Lake(str(tmp_path)), options_of(load(options={"bootstrap_server": servers})), Random(1)
    runs = [look_up(options, lake, "c", sample=chance.sample) for _ in range(40)]
    assert max(runs) == 1
    assert ("zebra", 0, 0, FIRST_MS) in known(lake)
    assert runs[-1] == 0, "only those are left that have no age"


def test_groups_that_may_not_be_listed_are_an_error(
    servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = Connection.receive

    def refused(self: Connection, asked: Any) -> Any:
        answer = receive(self, asked)
        if isinstance(answer, ListGroupsResponse):
            answer.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return answer

    commit(servers, "unseen", "orders", {0: 3})
    monkeypatch.setattr(Connection, "receive", refused)
    with pytest.raises(SourceError, match=f"could not read committed offsets: list the groups of {servers}"):
        look_up(options_of(load(options={"bootstrap_server": servers})), Lake(str(tmp_path)), "c")


def test_what_is_known_stays_in_arrow(tmp_path: Path) -> None:
    """Weeks of a large cluster are millions of places; each as an object of Python's would take all memory."""
    lake, now = Lake(str(tmp_path)), datetime(2026, 11, 23, 12, tzinfo=UTC)
    tp = TopicPartition("orders", 3)
    old = now - timedelta(days=KNOWN_DAYS + 1)
    record_times._write(lake, "c", old, [(Place(tp, -1), FIRST_MS)])
    record_times._write(lake, "c", now, [(Place(tp, offset), FIRST_MS) for offset in range(100_000)])
    other = {Place(tp, 100_000), Place(TopicPartition("orders", 4), 5), Place(TopicPartition("refunds", 3), 5)}
    asked = {Place(tp, -1), Place(tp, 0), Place(tp, 99_999)} | other
    with allocations() as allocated:
        found = record_times.unknown(lake, now, asked)
    assert found == sorted(other | {Place(tp, -1)}), "what is older than gold looks is asked again"
    assert allocated.bytes < 2_000_000
    assert record_times.unknown(Lake(str(tmp_path / "none")), now, asked) == sorted(asked)
    assert record_times.unknown(lake, now, set()) == []
