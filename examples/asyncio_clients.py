"""The included client and aiokafka: they have the same names, so one loop serves both."""

from __future__ import annotations

from typing import Any, NamedTuple


class Kind(NamedTuple):
    """The names that one of the two has for the same things; ``assignors`` are by Kafka's names."""

    consumer: Any
    listener: Any
    place: Any
    error: type[Exception]
    assignors: dict[str, Any]


def kind_of(name: str) -> Kind:
    """``ottla``, or else aiokafka."""
    if name == "ottla":
        from ottla import clients as ottla

        names = {one: one for one in ("range", "roundrobin")}
        return Kind(ottla.Consumer, ottla.ConsumerRebalanceListener, ottla.TopicPartition, ottla.KafkaError, names)
    import aiokafka
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    return Kind(
        aiokafka.AIOKafkaConsumer,
        aiokafka.ConsumerRebalanceListener,
        aiokafka.TopicPartition,
        aiokafka.errors.KafkaError,
        {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor},
    )
