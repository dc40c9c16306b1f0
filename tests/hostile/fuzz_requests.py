"""Requests for every API and version out of the message table: mostly plausible, with some fields that are not."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from ottla.broker.handlers import HANDLERS, handler
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.schema import ArrayOf, WireType
from ottla.protocol.structs import WireField
from tests.hostile.fuzz_batches import hostile_batches
from tests.protocol.wire_values import at_version, zero
from tests.wire.requests import SUBSCRIBED

CALLS = [
    (key, version)
    for key in HANDLERS
    if key is not ApiKey.WORKBENCH
    for version in handler(key).versions
    if version in api(key).request.versions
]
"""Every API and version that is served by a broker without a workbench."""

REPEATS = [2, 10, 100, 1000]
HONEST = "honest"
"""The group that nobody may harm who does not know its members."""
NOT_UTF8 = "\x01\x02\x03\x04not-utf8"
"""Stands in a message for bytes that are no text: `spoilt` puts them in its place."""
_NO_TEXT = b"\xff\xc0\xed\xa0not-utf8"

_NESTED = "((((){1000}){1000}){1000})"
STRINGS = [
    "", " ", ".", "..", "\0", "a" * 249, "a" * 250, "ü" * 300, "🜁" * 60, "x" * 32_767, NOT_UTF8, "../../etc/passwd",
    "a\nb\r\x1b[31mred", "%s%n{}{0.__class__}", "__consumer_offsets", "__transaction_state", "__ottla_group_events",
    "-1", "1", "0", "2147483648", "9" * 400, "1e999", "NaN", "true", ".*", _NESTED, "(a+)+$",
    "[", "\\Q", "a.b", "a_b", "null", "<default>", "User:*", "*", "\u202e", "\ud7ff\ufffd",
]  # fmt: skip
BYTES = [
    b"",
    b"\0",
    b"\xff" * 8,
    SUBSCRIBED,
    SUBSCRIBED[:9],
    b"\0\1\x7f\xff\xff\xff",
    b"\0\1\0\0\0\2\xff\xff",
    b"m" * 9000,
]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 1e300, 5e-324, float("nan"), float("inf"), float("-inf"), 1e9]
_BITS = {"b": 8, "h": 16, "H": 16, "i": 32, "I": 32, "q": 64}

# By field name: from which pool a plausible value comes.
_POOL_OF = {
    "groups_names": "group_id", "groups": "group_id", "coordinator_keys": "group_id", "key": "group_id",
    "topic": "topics", "topic_names": "topics", "topic_name": "topics", "name": "topics", "resource_name": "topics",
    "transactional_ids": "transactional_id", "v3_and_below_transactional_id": "transactional_id",
    "v3_and_below_producer_id": "producer_id", "v3_and_below_producer_epoch": "producer_epoch",
    "producer_id_filters": "producer_id", "generation_id_or_member_epoch": "generation_id",
    "partition_index": "partitions", "partition": "partitions", "index": "partitions",
    "partition_indexes": "partitions",
    "resource_name_filter": "topics", "transactional_id_pattern": "patterns", "configuration_keys": "configs",
    "generation": "generation_id", "num_partitions": "partitions", "count": "partitions",
}  # fmt: skip

_ALWAYS: dict[str, list[Any]] = {
    "topics": ["wire", "wire", "wire", "wire-compact", "wire-packed", "wire-nobody", "__consumer_offsets"],
    "group_id": ["wire-group"],
    "transactional_id": ["wire-transaction"],
    "partitions": [0, 0, 0, 1, 2, -1],
    "generation_id": [-1, 0, 1],
    "producer_id": [-1, 0, 1000],
    "producer_epoch": [-1, 0, 1],
    "member_id": [""],
    "group_instance_id": [None, "wire-instance"],
    "patterns": [None, "", "wire.*", ".*b", "(a|b)*c", _NESTED],
    "configs": ["retention.ms", "cleanup.policy", "segment.bytes", "max.message.bytes", "compression.type", "nothing"],
    "protocol_type": ["consumer"],
    "protocol_name": ["range", "range", None],
    "session_timeout_ms": [100, 6_000, 30_000],
    "rebalance_timeout_ms": [100, 500, 1_000],
    "max_wait_ms": [0, 0, 10],
    "transaction_timeout_ms": [500, 5_000, 60_000],
    "timeout_ms": [10_000],
    "acks": [-1, -1, -1, 1, 0],
    "isolation_level": [0, 1],
    "coordinator_type": [0, 0, 1],
    "key_type": [0, 0, 1],
    "resource_type": [2, 2, 4, 8, 32, 3],
    "resource_type_filter": [1, 2, 3],
    "pattern_type_filter": [1, 2, 3, 4],
    "resource_pattern_type": [3, 4],
    "operation": [1, 2, 3, 8],
    "permission_type": [1, 2, 3],
    "config_operation": [0, 1, 2, 3],
    "mechanism": [1, 2],
    "iterations": [4096, 16384],
    "entity_type": ["user", "client-id"],  # quotas of an address would shut every guest out, as they should
    "entity_name": [None, "somebody-else", "127.0.0.1", "fuzz-0"],
    "fetch_offset": [0, 0, 1, 5],
    "session_id": [0],
    "session_epoch": [-1, 0, 1],
    "replica_id": [-1],
    "current_leader_epoch": [-1, -1, 0],
    "last_fetched_epoch": [-1],
    "leader_epoch": [-1, 0],
    "max_bytes": [1 << 20, 100],
    "partition_max_bytes": [1 << 20, 100],
    "min_bytes": [0, 1],
    "timestamp": [-1, -2, -3, 0],
    "replication_factor": [1, -1],
    "cluster_id": [None],
    "rack_id": ["", "here"],
    "endpoint_type": [1],
    "view": ["why", "timeline", "events"],
}
_ALWAYS |= {f"v3_and_below_{name}": _ALWAYS[name] for name in ("transactional_id", "producer_id", "producer_epoch")}
_CONFIG_VALUES = ["1000", "compact", "delete", "gzip", "zstd", "-1", "0", "16384", "LogAppendTime", None, ""]
_QUOTAS = ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"]
_LEARNT = 30


@dataclass(slots=True)
class Known:
    """What answers have told, by pool: names and numbers that the broker knows."""

    pools: dict[str, list[Any]] = field(default_factory=dict)

    def note(self, name: str, value: Any) -> None:
        pool = self.pools.setdefault(name, [])
        if value not in pool and value != HONEST:
            pool.append(value)
            del pool[:-_LEARNT]

    def note_all(self, told: Mapping[str, Any]) -> None:
        for name, value in told.items():
            self.note(name, value)

    def learn(self, message: Any) -> None:
        """Keep what an answer tells that later requests can use."""
        for declared in message.__wire__:
            value = getattr(message, declared.name)
            if isinstance(value, list):
                for item in value[:3]:
                    if hasattr(item, "__wire__"):
                        self.learn(item)
            elif hasattr(value, "__wire__"):
                self.learn(value)
            elif declared.name in _KEPT and value is not None:
                self.note(declared.name, uuid.UUID(bytes=value.bytes) if declared.type.kind == "uuid" else value)


_KEPT = ("group_id", "member_id", "generation_id", "producer_id", "producer_epoch", "session_id", "topic_id")


@dataclass(slots=True)
class Writer:
    """Writes requests by chance.

    Args:
        most_items: how long an array may be made.
    """

    rng: Random
    known: Known
    most_items: int = 1000

    def request(self, key: ApiKey, version: int) -> Any:
        """A plausible request of what is known."""
        return self.struct(api(key).request, version, key.name)

    def struct(self, cls: Any, version: int, where: str) -> Any:
        made = cls()
        for declared in cls.__wire__:
            if declared.present(version):
                setattr(made, declared.name, self.field(declared, version, cls.__name__))
        return made

    def field(self, declared: WireField, version: int, where: str) -> Any:
        if self.rng.random() < 0.02:
            return self.nasty(declared, version)
        if isinstance(declared.type, ArrayOf):
            if version >= declared.nullable_since and self.rng.random() < 0.2:
                return None
            return [self.item(declared, version, where) for _ in range(self.rng.choice((0, 1, 1, 1, 1, 2, 3)))]
        return self.item(declared, version, where)

    def item(self, declared: WireField, version: int, where: str) -> Any:
        """A value of the field, or an item of the array that it is."""
        kind = declared.type.item if isinstance(declared.type, ArrayOf) else declared.type
        if not isinstance(kind, WireType):
            return self.struct(kind, version, where)
        if kind.kind == "records":
            return hostile_batches(self.rng, self.known.pools)
        if kind.kind == "uuid":
            return self.rng.choice([*self.known.pools.get("topic_id", ()), uuid.UUID(int=0), uuid.UUID(int=7)])
        if kind.kind == "bytes":
            return self.rng.choice(BYTES)
        if kind.kind == "?":
            return self.rng.random() < 0.5
        if kind.kind == "d":
            return self.rng.choice((1e9, 1e6, self.rng.choice(FLOATS)))
        return self.leaf(declared, kind, where)

    def leaf(self, declared: WireField, kind: WireType, where: str) -> Any:
        """A name or a number, from where such are known."""
        name = declared.name
        if "Protocol" in where and name == "name":
            return self.rng.choice(("range", "range", "roundrobin", ""))
        if "Config" in where and name == "name":
            return self.rng.choice(_ALWAYS["configs"])
        if name == "value":
            value = self.rng.choice(_CONFIG_VALUES)
            return value if kind.kind == "string" else 0
        if name == "key" and where.startswith("Op"):
            return self.rng.choice(_QUOTAS)
        pool = _POOL_OF.get(name, name)
        learnt, always = self.known.pools.get(pool, ()), _ALWAYS.get(pool, ())
        if learnt and (not always or self.rng.random() < 0.7):
            value = self.rng.choice(learnt)
        elif always:
            value = self.rng.choice(always)
        else:
            value = declared.default if not isinstance(declared.type, ArrayOf) else kind.default
        if (kind.kind == "string") != isinstance(value, str) and value is not None:
            return kind.default
        return value

    # Mutation

    def mutate(self, message: Any, version: int) -> None:
        """Change one field of it somewhere."""
        places = list(_fields(message, version))
        if not places:
            return
        holder, declared = self.rng.choice(places)
        value = getattr(holder, declared.name)
        if isinstance(value, list) and value and self.rng.random() < 0.8:
            self.spoil_list(value, declared, version)
        else:
            setattr(holder, declared.name, self.nasty(declared, version))

    def spoil_list(self, items: list[Any], declared: WireField, version: int) -> None:
        match self.rng.randrange(6):
            case 0:
                items.append(self.rng.choice(items))
            case 1:
                items[:] = items * min(self.rng.choice(REPEATS), max(1, self.most_items // len(items)))
            case 2:
                items.pop(self.rng.randrange(len(items)))
            case 3:
                self.rng.shuffle(items)
            case 4 if isinstance(declared.type, ArrayOf) and isinstance(declared.type.item, WireType):
                items[self.rng.randrange(len(items))] = self.nasty_leaf(declared.type.item)
            case _:
                items.append(self.item(declared, version, ""))

    def nasty(self, declared: WireField, version: int) -> Any:
        """A value that is allowed by the form and by nothing else."""
        if version >= declared.nullable_since and self.rng.random() < 0.3:
            return None
        if isinstance(declared.type, ArrayOf):
            return [self.item(declared, version, "") for _ in range(self.rng.choice((0, 2, 20)))]
        if isinstance(declared.type, WireType):
            if declared.type.kind == "records":
                return hostile_batches(self.rng, self.known.pools)
            return self.nasty_leaf(declared.type)
        return zero(declared.type)

    def nasty_leaf(self, kind: WireType) -> Any:
        match kind.kind:
            case "string":
                return self.rng.choice(STRINGS)
            case "bytes" | "records":
                return self.rng.choice(BYTES)
            case "uuid":
                return uuid.UUID(int=self.rng.choice((0, 1, 2**128 - 1, self.rng.getrandbits(128))))
            case "?":
                return self.rng.random() < 0.5
            case "d":
                return self.rng.choice(FLOATS)
            case code:
                bits = _BITS[code]
                value = self.rng.choice(
                    (0, -1, 1, 2, 7, 255, 1 << bits - 1, (1 << bits - 1) - 1, self.rng.getrandbits(bits))
                )
                value &= (1 << bits) - 1
                return value if code in "HI" or value < 1 << bits - 1 else value - (1 << bits)


def _fields(message: Any, version: int) -> Iterator[tuple[Any, WireField]]:
    """Every field that a message has at a version, with the object that holds it; of arrays the first few items."""
    for declared in message.__wire__:
        if declared.present(version):
            yield message, declared
            value = getattr(message, declared.name)
            for item in value[:3] if isinstance(value, list) else (value,):
                if hasattr(item, "__wire__"):
                    yield from _fields(item, version)


def weight(value: Any, weighed: dict[int, int] | None = None) -> int:
    """About how many bytes a value takes in a request. What an array repeats is weighed once."""
    weighed = {} if weighed is None else weighed
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, list):
        return sum(weight(item, weighed) for item in value)
    if not hasattr(value, "__wire__"):
        return 1
    if id(value) not in weighed:
        weighed[id(value)] = sum(weight(getattr(value, declared.name), weighed) for declared in value.__wire__)
    return weighed[id(value)]


def body_of(key: ApiKey, version: int, message: Any) -> bytes:
    """A request's body, with bytes that are no text where `NOT_UTF8` stands."""
    body = api(key).request.layout(version).encode(at_version(message, version))
    return bytes(body).replace(NOT_UTF8.encode(), _NO_TEXT)
