"""API keys, and the table that joins a key with its request and response.

Message modules are imported when a key is first used: start-up pays only for the APIs that a connection asks for.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import NamedTuple

from ottla.protocol.framing import ANY_REQUEST_BYTES
from ottla.protocol.schema import Message

FIRST_PRIVATE = 20_000
"""From here on keys are Ottla's own; Kafka's are far below and grow by a few a year."""


class ApiKey(IntEnum):
    """The APIs whose messages are declared: Kafka's (https://kafka.apache.org/protocol#protocol_api_keys) and ours."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    DESCRIBE_GROUP_HISTORY = 20_001
    WORKBENCH = 20_002

    @property
    def is_private(self) -> bool:
        """True if it is Ottla's own: brokers serve it without advertising it."""
        return self >= FIRST_PRIVATE

    @property
    def max_request_bytes(self) -> int:
        """So long may a request be, as far as its API goes; ``socket.request.max.bytes`` holds besides."""
        return _MAX_REQUEST_BYTES.get(self, 2**31 - 1)

    @property
    def module(self) -> str:
        """The name that this API's message module and handler share: ``join_group``."""
        return self.name.lower()


# A few names and numbers, of which the longest that there can be fit in.
_FEW = (
    ApiKey.HEARTBEAT, ApiKey.LIST_GROUPS, ApiKey.API_VERSIONS, ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN, ApiKey.DESCRIBE_ACLS, ApiKey.DESCRIBE_CLUSTER, ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_GROUP_HISTORY, ApiKey.UPDATE_FEATURES, ApiKey.WORKBENCH, ApiKey.SASL_HANDSHAKE,
)  # fmt: skip
# Lists that clients keep short: the members of one group, the groups or transactions that one tool asks for.
_LISTS = (
    ApiKey.LEAVE_GROUP, ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.LIST_TRANSACTIONS,
)  # fmt: skip
_MAX_REQUEST_BYTES = dict.fromkeys(_FEW, ANY_REQUEST_BYTES) | dict.fromkeys(_LISTS, 1 << 20)
# Admin clients put all the groups that there are into one. Its keys are not looked at, however long they are.
_MAX_REQUEST_BYTES[ApiKey.FIND_COORDINATOR] = 4 << 20
# Where it does not belong; before authentication it is sasl.server.max.receive.size.
_MAX_REQUEST_BYTES[ApiKey.SASL_AUTHENTICATE] = 1 << 20
# Ten thousand topics, and a hundred thousand partitions of them.
_MAX_REQUEST_BYTES[ApiKey.CONSUMER_GROUP_HEARTBEAT] = 4 << 20


class Api(NamedTuple):
    """One row of the table."""

    key: ApiKey
    request: type[Message]
    response: type[Message]

    def request_header_version(self, version: int) -> int:
        """1, or 2 for a flexible version (KIP-482)."""
        return 2 if version >= self.request.flexible_from else 1

    def response_header_version(self, version: int) -> int:
        """0, or 1 for a flexible version; ApiVersions is always 0, so that any client can read it (KIP-511)."""
        return int(version >= self.response.flexible_from and self.key is not ApiKey.API_VERSIONS)


@cache
def api(key: ApiKey) -> Api:
    """The request and response of an API."""
    module = import_module(f"ottla.protocol.messages.{key.module}")
    stem = key.module.title().replace("_", "")
    return Api(key, getattr(module, f"{stem}Request"), getattr(module, f"{stem}Response"))
