"""The declarations against Kafka's own schema files: field by field, version by version.

The oracles compare bytes and so cannot see a default, or a null that is allowed and never sent. This can.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.schema import FOREVER, ArrayOf, WireType
from ottla.protocol.structs import WireField, shared_default
from tests.protocol.kafka_schemas import schema_of
from tests.protocol.wire_values import APIS, HEADERS, KAFKAS, name_of

KINDS = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "bool": "?",
    "string": "string",
    "bytes": "bytes",
    "records": "records",
    "uuid": "uuid",
}

APACHE_KAFKA_4_3 = {
    "PRODUCE": (3, 13),
    "FETCH": (4, 18),
    "LIST_OFFSETS": (1, 11),
    "METADATA": (0, 13),
    "OFFSET_COMMIT": (2, 10),
    "OFFSET_FETCH": (1, 10),
    "FIND_COORDINATOR": (0, 6),
    "JOIN_GROUP": (0, 9),
    "HEARTBEAT": (0, 4),
    "LEAVE_GROUP": (0, 5),
    "SYNC_GROUP": (0, 5),
    "DESCRIBE_GROUPS": (0, 6),
    "LIST_GROUPS": (0, 5),
    "API_VERSIONS": (0, 4),
    "CREATE_TOPICS": (2, 7),
    "DELETE_TOPICS": (1, 6),
    "DELETE_RECORDS": (0, 2),
    "INIT_PRODUCER_ID": (0, 5),
    "OFFSET_FOR_LEADER_EPOCH": (2, 4),
    "DESCRIBE_CONFIGS": (1, 4),
    "CREATE_PARTITIONS": (0, 3),
    "DELETE_GROUPS": (0, 2),
    "OFFSET_DELETE": (0, 0),
    "DESCRIBE_CLUSTER": (0, 2),
    "ADD_PARTITIONS_TO_TXN": (0, 5),
    "ADD_OFFSETS_TO_TXN": (0, 4),
    "END_TXN": (0, 5),
    "WRITE_TXN_MARKERS": (1, 2),
    "TXN_OFFSET_COMMIT": (0, 5),
    "ALTER_CONFIGS": (0, 2),
    "ALTER_REPLICA_LOG_DIRS": (1, 2),
    "DESCRIBE_LOG_DIRS": (1, 5),
    "ELECT_LEADERS": (0, 2),
    "INCREMENTAL_ALTER_CONFIGS": (0, 1),
    "ALTER_PARTITION_REASSIGNMENTS": (0, 1),
    "LIST_PARTITION_REASSIGNMENTS": (0, 0),
    "DESCRIBE_PRODUCERS": (0, 0),
    "DESCRIBE_TRANSACTIONS": (0, 0),
    "LIST_TRANSACTIONS": (0, 2),
    "DESCRIBE_TOPIC_PARTITIONS": (0, 0),
    "DESCRIBE_ACLS": (1, 3),
    "CREATE_ACLS": (1, 3),
    "DELETE_ACLS": (1, 3),
    "DESCRIBE_CLIENT_QUOTAS": (0, 1),
    "ALTER_CLIENT_QUOTAS": (0, 1),
    "DESCRIBE_USER_SCRAM_CREDENTIALS": (0, 0),
    "ALTER_USER_SCRAM_CREDENTIALS": (0, 0),
    "UPDATE_FEATURES": (0, 2),
    "LIST_CONFIG_RESOURCES": (0, 1),
    "CONSUMER_GROUP_HEARTBEAT": (0, 1),
    "CONSUMER_GROUP_DESCRIBE": (0, 1),
    "SASL_HANDSHAKE": (0, 1),
    "SASL_AUTHENTICATE": (0, 2),
}
"""What a broker of that release serves: every one of these versions has its layout here."""


def span(text: str | None) -> tuple[int, int] | None:
    """``3+``, ``1-4``, ``2`` or ``none`` as first and last version."""
    if not text or text == "none":
        return None
    first, _, last = text.partition("-")
    if first.endswith("+"):
        return int(first[:-1]), FOREVER
    return int(first), int(last or first)


def covers(versions: tuple[int, int] | None, version: int) -> bool:
    return versions is not None and versions[0] <= version <= versions[1]


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def described(field: dict[str, Any], version: int) -> dict[str, Any]:
    """What Kafka's schema says of a field at a version."""
    kind = field["type"]
    return {
        "name": snake(field["name"]),
        "array": kind.startswith("[]"),
        "kind": KINDS.get(kind.removeprefix("[]"), "struct"),
        "nullable": covers(span(field.get("nullableVersions")), version),
        "tag": field["tag"] if covers(span(field.get("taggedVersions")), version) else None,
    }


def declared(field: WireField, version: int) -> dict[str, Any]:
    """What we say of it."""
    item = field.type.item if isinstance(field.type, ArrayOf) else field.type
    return {
        "name": field.name,
        "array": isinstance(field.type, ArrayOf),
        "kind": item.kind if isinstance(item, WireType) else "struct",
        "nullable": version >= field.nullable_since,
        "tag": field.tag if field.tagged(version) else None,
    }


def default_of(field: dict[str, Any]) -> Any:
    """The default in Kafka's schema; a type's zero value where it names none."""
    kind, text = field["type"], field.get("default")
    if text == "null":
        return None
    if kind.startswith("[]"):
        return []
    match KINDS.get(kind, "struct"):
        case "string":
            return text or ""
        case "bytes" | "records":
            return b""
        case "?":
            return str(text).lower() == "true"
        case "uuid" | "struct":
            return None
        case _:
            return int(str(text or "0"), 0)


def compare(ours: tuple[WireField, ...], theirs: list[dict[str, Any]], version: int, path: str) -> None:
    mine = [field for field in ours if field.present(version)]
    kafka = [field for field in theirs if covers(span(field["versions"]), version)]
    assert [declared(field, version) for field in mine] == [described(field, version) for field in kafka], path
    for field, schema in zip(mine, kafka, strict=True):
        nested = field.type.item if isinstance(field.type, ArrayOf) else field.type
        if not isinstance(nested, WireType):
            compare(nested.__wire__, schema["fields"], version, f"{path}.{field.name}")


def compare_defaults(
    ours: tuple[WireField, ...], theirs: list[dict[str, Any]], versions: Sequence[int], path: str
) -> None:
    """A default must be Kafka's: tagged fields are left out when they have it, and absent ones read as it.

    Args:
        versions: those that have the struct at this place; it may have fields that are for others.
    """
    schemas = {snake(schema["name"]): schema for schema in theirs}
    for field in ours:
        here = [version for version in versions if field.present(version)]
        schema = schemas.pop(field.name, None)
        if schema is None:
            assert not here, f"{path}.{field.name}"
            continue
        nested = field.type.item if isinstance(field.type, ArrayOf) else field.type
        if not isinstance(nested, WireType):
            compare_defaults(nested.__wire__, schema["fields"], here, f"{path}.{field.name}")
        if isinstance(nested, WireType) and nested.kind == "uuid":
            assert field.default.int == 0
        elif isinstance(nested, WireType) or isinstance(field.type, ArrayOf):
            assert field.default == default_of(schema), f"{path}.{field.name}"
    left = [name for name, schema in schemas.items() if any(covers(span(schema["versions"]), v) for v in versions)]
    assert not left, f"{path}: fields of Kafka that are not declared"


KAFKA_MESSAGES: list[type] = [cls for row in KAFKAS for cls in (row.request, row.response)]


@pytest.mark.parametrize("cls", KAFKA_MESSAGES + HEADERS, ids=name_of)
def test_fields_are_kafkas_at_every_version(cls: Any) -> None:
    schema = schema_of(cls)
    for version in cls.versions:
        if cls.__name__ == "RequestHeader" and version == 0:
            continue  # Kafka 4 dropped it, and its schema file with it: a header without a client id
        compare(cls.__wire__, schema["fields"], version, f"{cls.__name__} v{version}")


@pytest.mark.parametrize("cls", KAFKA_MESSAGES, ids=name_of)
def test_defaults_are_kafkas(cls: Any) -> None:
    compare_defaults(cls.__wire__, schema_of(cls)["fields"], cls.versions, cls.__name__)


@pytest.mark.parametrize("cls", KAFKA_MESSAGES + HEADERS, ids=name_of)
def test_flexible_versions_are_kafkas(cls: Any) -> None:
    flexible = span(schema_of(cls)["flexibleVersions"])
    for version in cls.versions:
        assert cls.layout(version).flexible == covers(flexible, version)


@pytest.mark.parametrize("row", KAFKAS, ids=lambda row: row.key.name)
def test_keys_and_versions(row: Any) -> None:
    for cls in (row.request, row.response):
        schema = schema_of(cls)
        assert schema["apiKey"] == row.key
        first, last = span(schema["validVersions"]) or (0, 0)
        assert first <= cls.versions[0]
        assert cls.versions[-1] <= last
        assert (cls.versions[0], cls.versions[-1]) == APACHE_KAFKA_4_3[row.key.name]


def test_every_api_is_listed() -> None:
    assert {key.name for key in ApiKey if not key.is_private} == set(APACHE_KAFKA_4_3)


def test_our_own_keys_are_far_from_kafkas() -> None:
    assert {key.name for key in ApiKey if key >= 1_000} == {"DESCRIBE_GROUP_HISTORY", "WORKBENCH"}
    assert all(key.is_private == (key >= 20_000) for key in ApiKey)


@pytest.mark.parametrize("row", APIS, ids=lambda row: row.key.name)
def test_header_versions(row: Any) -> None:
    """Flexible versions have header versions 2 and 1; the response header of ApiVersions is always 0 (KIP-511)."""
    for version in row.request.versions:
        flexible = row.request.layout(version).flexible
        assert row.request_header_version(version) == (2 if flexible else 1)
        expected = 1 if flexible and row.key is not ApiKey.API_VERSIONS else 0
        assert row.response_header_version(version) == expected


def test_a_shared_default_is_written_as_any_other() -> None:
    """As nothing: and what differs from it is written, though the field is of the same struct."""
    shared = PartitionData(diverging_epoch=shared_default(EpochEndOffset))
    layout = FetchResponse.layout(12)

    def written(row: PartitionData) -> bytes:
        return layout.encode(FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[row])]))

    assert shared_default(EpochEndOffset) is shared_default(EpochEndOffset)
    assert written(shared) == written(PartitionData())
    other = PartitionData(diverging_epoch=EpochEndOffset(epoch=1, end_offset=2))
    read = layout.decode(written(other)).responses[0].partitions[0]
    assert (read.diverging_epoch.epoch, read.diverging_epoch.end_offset) == (1, 2)
