"""The included client: producer, consumer and admin client for asyncio, for Ottla and for Apache Kafka.

Method and option names are aiokafka's, with Kafka's ``poll`` besides. Names here are imported when first used, so that
a program pays only for the client it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.clients.admin import Admin
    from ottla.clients.admin_structs import (
        ClusterDescription,
        ConfigChange,
        ConfigEntry,
        CreatedTopic,
        GroupDescription,
        GroupListing,
        MemberDescription,
        NewTopic,
        ProducerDescription,
        TransactionDescription,
        TransactionListing,
    )
    from ottla.clients.assignors import Assignor, MemberSubscription, RebalanceProtocol
    from ottla.clients.consumer import Consumer
    from ottla.clients.errors import (
        ClientClosed,
        CommitFailed,
        FencedInstance,
        InvalidTransactionState,
        KafkaConnectionError,
        KafkaError,
        KafkaTimeout,
        NoOffsetForPartition,
        OffsetOutOfRange,
        OptionError,
        ProducerFenced,
        RebalanceInProgress,
        RecordCorrupt,
        RecordNotReadable,
        SomeFailed,
        TransactionFailed,
        UnsupportedByBroker,
    )
    from ottla.clients.group_effects import MemberState
    from ottla.clients.listener import ConsumerInterceptor, ConsumerRebalanceListener
    from ottla.clients.partitioner import murmur2
    from ottla.clients.producer import Producer
    from ottla.clients.structs import (
        BrokerInfo,
        ConsumerGroupMetadata,
        ConsumerRecord,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        PartitionInfo,
        RecordMetadata,
        TimestampType,
        TopicInfo,
        TopicPartition,
    )
    from ottla.protocol.errors import ErrorCode

_HOMES = {
    "admin": ["Admin"],
    "admin_structs": [
        "ClusterDescription", "ConfigChange", "ConfigEntry", "CreatedTopic", "GroupDescription", "GroupListing",
        "MemberDescription", "NewTopic", "ProducerDescription", "TransactionDescription", "TransactionListing",
    ],
    "assignors": ["Assignor", "MemberSubscription", "RebalanceProtocol"],
    "consumer": ["Consumer"],
    "errors": [
        "ClientClosed", "CommitFailed", "FencedInstance", "InvalidTransactionState", "KafkaConnectionError",
        "KafkaError", "KafkaTimeout", "NoOffsetForPartition", "OffsetOutOfRange", "OptionError", "ProducerFenced",
        "RebalanceInProgress", "RecordCorrupt", "RecordNotReadable", "SomeFailed", "TransactionFailed",
        "UnsupportedByBroker", "ErrorCode",
    ],
    "group_effects": ["MemberState"],
    "listener": ["ConsumerInterceptor", "ConsumerRebalanceListener"],
    "partitioner": ["murmur2"],
    "producer": ["Producer"],
    "structs": [
        "BrokerInfo", "ConsumerGroupMetadata", "ConsumerRecord", "OffsetAndMetadata", "OffsetAndTimestamp",
        "PartitionInfo", "RecordMetadata", "TimestampType", "TopicInfo", "TopicPartition",
    ],
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOME)


__all__ = [
    "Admin",
    "Assignor",
    "BrokerInfo",
    "ClientClosed",
    "ClusterDescription",
    "CommitFailed",
    "ConfigChange",
    "ConfigEntry",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerInterceptor",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "CreatedTopic",
    "ErrorCode",
    "FencedInstance",
    "GroupDescription",
    "GroupListing",
    "InvalidTransactionState",
    "KafkaConnectionError",
    "KafkaError",
    "KafkaTimeout",
    "MemberDescription",
    "MemberState",
    "MemberSubscription",
    "NewTopic",
    "NoOffsetForPartition",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRange",
    "OptionError",
    "PartitionInfo",
    "Producer",
    "ProducerDescription",
    "ProducerFenced",
    "RebalanceInProgress",
    "RebalanceProtocol",
    "RecordCorrupt",
    "RecordMetadata",
    "RecordNotReadable",
    "SomeFailed",
    "TimestampType",
    "TopicInfo",
    "TopicPartition",
    "TransactionDescription",
    "TransactionFailed",
    "TransactionListing",
    "UnsupportedByBroker",
    "murmur2",
]
