"""What only an embedded broker can tell: the tests that use it say something that no client shows."""

from ottla.broker.runtime.reading import read_when_here
from ottla.protocol.records import BatchHeader, TopicPartition, iter_batches
from ottla.testing import Broker


def generation(broker: Broker, group: str) -> int:
    """The generation of a group, which DescribeGroups does not have."""
    value = broker.run(broker._running._groups.durable_state)[group].generation
    assert value is not None, f"group {group} has never been logged"
    return value.generation


def stored_batches(broker: Broker, topic: str, partition: int = 0) -> list[BatchHeader]:
    """The headers of all batches of a partition, as they are stored."""

    async def read() -> list[BatchHeader]:
        log = broker._running._engine.logs[TopicPartition(topic, partition)]
        batches = await read_when_here(log, log.log_start_offset, max_bytes=64 << 20)
        return [header for header, _ in iter_batches(batches)]

    return broker.call(read())
