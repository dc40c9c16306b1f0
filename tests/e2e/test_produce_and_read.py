"""Every client produces with every codec, with and without idempotence; what it produced reads the same everywhere."""

import pytest

from ottla.protocol.compression import Codec
from ottla.testing import Broker
from tests.e2e.inside import stored_batches
from tests.support.clients import confluent
from tests.support.kit import KINDS, Got, kit_of, produce

pytestmark = pytest.mark.e2e

CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
PER_ROUND = 20

READERS = KINDS[:3]


def read(kind: str, bootstrap: str, topic: str, end: int) -> list[Got]:
    """The records of partition 0 as a client reads them, without timestamps."""
    found: list[Got] = kit_of(kind, bootstrap).read({(topic, 0): 0}, end, patience_s=30)
    return [row._replace(timestamp_ms=0) for row in found]


@pytest.mark.parametrize("kind", KINDS)
def test_codecs(kind: str, broker: Broker, name: str) -> None:
    confluent.create_topics(broker.bootstrap_servers, {name: 1})
    wanted: list[Got] = []
    rounds: list[tuple[Codec, bool]] = [(codec, idempotent) for codec in CODECS for idempotent in (True, False)]
    for codec, idempotent in rounds:
        values = [f"{codec.name} {idempotent} {number:03} " + "ottla " * 40 for number in range(PER_ROUND)]
        options = {"codec": codec.name.lower(), "idempotent": idempotent, "partition": 0}
        acks = produce(broker.bootstrap_servers, name, values, kind=kind, **options)
        assert acks == [(0, len(wanted) + at) for at in range(PER_ROUND)]
        headers = (("by", kind.encode()),)
        rows = enumerate((value.encode() for value in values), len(wanted))
        wanted += [Got(0, offset, value, value, headers, 0) for offset, value in rows]

    batches = stored_batches(broker, name)
    assert [(batch.codec, batch.producer_id >= 0) for batch in batches if batch.base_offset % PER_ROUND == 0] == rounds
    assert sum(batch.record_count for batch in batches) == len(wanted)

    for reader in READERS:
        assert read(reader, broker.bootstrap_servers, name, len(wanted)) == wanted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("acks", [0, 1])
def test_acks(kind: str, acks: int, broker: Broker, name: str) -> None:
    confluent.create_topics(broker.bootstrap_servers, {name: 1})
    values = [f"value {number}" for number in range(50)]
    produce(broker.bootstrap_servers, name, values, kind=kind, idempotent=False, partition=0, acks=acks)
    found = read("confluent", broker.bootstrap_servers, name, len(values))
    assert [row.value for row in found] == [value.encode() for value in values]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_near_the_limit(kind: str, broker: Broker, name: str) -> None:
    """A record of nearly a megabyte is stored, and reaches consumers that ask for less at a time."""
    confluent.create_topics(broker.bootstrap_servers, {name: 1})
    value = "x" * 490_000  # as key and as value
    assert produce(broker.bootstrap_servers, name, [value], kind=kind, partition=0) == [(0, 0)]
    for reader in READERS:
        assert [row.value for row in read(reader, broker.bootstrap_servers, name, 1)] == [value.encode()]
