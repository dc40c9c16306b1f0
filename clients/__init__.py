"""The included client: producer, consumer and admin client for asyncio, for Ottla and for Apache Kafka.

Method and option names are aiokafka's, with Kafka's ``poll`` besides. Names here are imported when first used, so that
a program pays only for the client it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.clients.admin import Admin as Admin
    from ottla.clients.admin_structs import ClusterDescription as ClusterDescription
    from ottla.clients.admin_structs import ConfigChange as ConfigChange
    from ottla.clients.admin_structs import ConfigEntry as ConfigEntry
    from ottla.clients.admin_structs import CreatedTopic as CreatedTopic
    from ottla.clients.admin_structs import GroupDescription as GroupDescription
    from ottla.clients.admin_structs import GroupListing as GroupListing
    from ottla.clients.admin_structs import MemberDescription as MemberDescription
    from ottla.clients.admin_structs import NewTopic as NewTopic
    from ottla.clients.admin_structs import ProducerDescription as ProducerDescription
    from ottla.clients.admin_structs import TransactionDescription as TransactionDescription
    from ottla.clients.admin_structs import TransactionListing as TransactionListing
    from ottla.clients.assignors import Assignor as Assignor
    from ottla.clients.assignors import MemberSubscription as MemberSubscription
    from ottla.clients.assignors import RebalanceProtocol as RebalanceProtocol
    from ottla.clients.consumer import Consumer as Consumer
    from ottla.clients.errors import AuthenticationFailed as AuthenticationFailed
    from ottla.clients.errors import ClientClosed as ClientClosed
    from ottla.clients.errors import ClusterAuthorizationFailed as ClusterAuthorizationFailed
    from ottla.clients.errors import CommitFailed as CommitFailed
    from ottla.clients.errors import FencedInstance as FencedInstance
    from ottla.clients.errors import GroupAuthorizationFailed as GroupAuthorizationFailed
    from ottla.clients.errors import InvalidTransactionState as InvalidTransactionState
    from ottla.clients.errors import KafkaConnectionError as KafkaConnectionError
    from ottla.clients.errors import KafkaError as KafkaError
    from ottla.clients.errors import KafkaTimeout as KafkaTimeout
    from ottla.clients.errors import NoOffsetForPartition as NoOffsetForPartition
    from ottla.clients.errors import OffsetOutOfRange as OffsetOutOfRange
    from ottla.clients.errors import OptionError as OptionError
    from ottla.clients.errors import ProducerFenced as ProducerFenced
    from ottla.clients.errors import RebalanceInProgress as RebalanceInProgress
    from ottla.clients.errors import RecordCorrupt as RecordCorrupt
    from ottla.clients.errors import RecordNotReadable as RecordNotReadable
    from ottla.clients.errors import SomeFailed as SomeFailed
    from ottla.clients.errors import TopicAuthorizationFailed as TopicAuthorizationFailed
    from ottla.clients.errors import TransactionalIdAuthorizationFailed as TransactionalIdAuthorizationFailed
    from ottla.clients.errors import TransactionFailed as TransactionFailed
    from ottla.clients.errors import UnsupportedByBroker as UnsupportedByBroker
    from ottla.clients.group_effects import MemberState as MemberState
    from ottla.clients.listener import ConsumerInterceptor as ConsumerInterceptor
    from ottla.clients.listener import ConsumerRebalanceListener as ConsumerRebalanceListener
    from ottla.clients.options import TokenProvider as TokenProvider
    from ottla.clients.partitioner import murmur2 as murmur2
    from ottla.clients.producer import Producer as Producer
    from ottla.clients.structs import BrokerInfo as BrokerInfo
    from ottla.clients.structs import ConsumerGroupMetadata as ConsumerGroupMetadata
    from ottla.clients.structs import ConsumerRecord as ConsumerRecord
    from ottla.clients.structs import OffsetAndMetadata as OffsetAndMetadata
    from ottla.clients.structs import OffsetAndTimestamp as OffsetAndTimestamp
    from ottla.clients.structs import PartitionInfo as PartitionInfo
    from ottla.clients.structs import RecordMetadata as RecordMetadata
    from ottla.clients.structs import TimestampType as TimestampType
    from ottla.clients.structs import TopicInfo as TopicInfo
    from ottla.clients.structs import TopicPartition as TopicPartition
    from ottla.protocol.errors import ErrorCode as ErrorCode

_HOMES = {
    "admin": ["Admin"],
    "admin_structs": [
        "ClusterDescription", "ConfigChange", "ConfigEntry", "CreatedTopic", "GroupDescription", "GroupListing",
        "MemberDescription", "NewTopic", "ProducerDescription", "TransactionDescription", "TransactionListing",
    ],
    "assignors": ["Assignor", "MemberSubscription", "RebalanceProtocol"],
    "consumer": ["Consumer"],
    "errors": [
        "AuthenticationFailed", "ClientClosed", "ClusterAuthorizationFailed", "CommitFailed", "FencedInstance",
        "GroupAuthorizationFailed", "InvalidTransactionState", "KafkaConnectionError", "KafkaError", "KafkaTimeout",
        "NoOffsetForPartition", "OffsetOutOfRange", "OptionError", "ProducerFenced", "RebalanceInProgress",
        "RecordCorrupt", "RecordNotReadable", "SomeFailed", "TopicAuthorizationFailed",
        "TransactionalIdAuthorizationFailed", "TransactionFailed", "UnsupportedByBroker", "ErrorCode",
    ],
    "group_effects": ["MemberState"],
    "listener": ["ConsumerInterceptor", "ConsumerRebalanceListener"],
    "options": ["TokenProvider"],
    "partitioner": ["murmur2"],
    "producer": ["Producer"],
    "structs": [
        "BrokerInfo", "ConsumerGroupMetadata", "ConsumerRecord", "OffsetAndMetadata", "OffsetAndTimestamp",
        "PartitionInfo", "RecordMetadata", "TimestampType", "TopicInfo", "TopicPartition",
    ],
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
