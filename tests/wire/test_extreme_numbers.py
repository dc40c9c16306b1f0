"""Every number of every request at the ends of what it can say, one at a time, and a start with what came of it.

A sum of such a number and a clock must neither be a traceback nor a record that cannot be read again.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.schema import ArrayOf, WireType
from ottla.protocol.structs import WireField
from ottla.testing import BrokerProcess
from tests.hostile.fuzz_requests import CALLS
from tests.support.client import Client
from tests.support.rules import WITH_RULES
from tests.wire.requests import World, error_codes

BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
NEWEST = {key: max(version for of, version in CALLS if of is key) for key, _ in CALLS}
SAYS_UNKNOWN = {ApiKey.FETCH}
"""As Kafka does, of an isolation level or a session that there cannot be."""
SETTINGS = {
    **WITH_RULES,
    "group.initial.rebalance.delay.ms": 0,
    "fetch.max.wait.ms": 10,
}


def numbers(message: Any, version: int) -> Iterator[tuple[Any, WireField, int]]:
    """The holder, the field and the bits of each number, or list of numbers, that a message has."""
    for declared in message.__wire__:
        if not declared.present(version):
            continue
        value = getattr(message, declared.name)
        kind = declared.type.item if isinstance(declared.type, ArrayOf) else declared.type
        if isinstance(kind, WireType):
            if kind.kind in BITS:
                yield message, declared, BITS[kind.kind]
            continue
        for item in value if isinstance(value, list) else [value]:
            if hasattr(item, "__wire__"):
                yield from numbers(item, version)


def spoilt(world: World, key: ApiKey, version: int) -> Iterator[tuple[str, Any]]:
    """Valid requests, each with one number at an end of what it can say."""
    for index, (_, declared, bits) in enumerate(list(numbers(world.minimal(key, version), version))):
        if key is ApiKey.PRODUCE and declared.name == "acks":
            continue  # 0 is not answered, and it is the only one that may not be
        for number in (-1 << bits - 1, (1 << bits - 1) - 1):
            message = world.minimal(key, version)
            holder, _, _ = list(numbers(message, version))[index]
            setattr(holder, declared.name, [number] if isinstance(declared.type, ArrayOf) else number)
            yield f"{key.name} v{version} {declared.name}={number}", message


@pytest.mark.e2e
def test_every_number_at_its_ends_and_a_start_afterwards(tmp_path: Path) -> None:
    asked = 0
    with BrokerProcess(tmp_path / "data", settings=SETTINGS, http=True) as broker:
        with Client(broker.port) as peer:
            world = World(peer)
            for key, version in NEWEST.items():
                for label, message in spoilt(world, key, version):
                    with Client(broker.port) as other:  # some of them close their connection
                        codes = set(error_codes(other.ask(key, version, message)))
                    assert -1 not in codes or key in SAYS_UNKNOWN, label
                    asked += 1
        looks(broker)
        assert "Traceback" not in broker.log_text()
        broker.restart()  # which begins a log of its own
        with Client(broker.port) as peer:
            assert peer.call(ApiKey.API_VERSIONS, 0).error_code == 0
            World(peer).group_with_offsets()
        looks(broker)
        assert "Traceback" not in broker.log_text()
    assert asked > 150


def looks(broker: BrokerProcess) -> None:
    """Whoever watches sees it all."""
    assert page(broker, "/metrics")
    assert json.loads(page(broker, "/v1/topics"))
    groups = [row["group_id"] for row in json.loads(page(broker, "/v1/groups"))["groups"]]
    assert groups
    for group in groups[:20]:
        for of in ("offsets", "members", "timeline"):
            assert json.loads(page(broker, f"/v1/groups/{quote(group, safe='')}/{of}"))


def page(broker: BrokerProcess, path: str) -> str:
    with urllib.request.urlopen(broker.http_url + path, timeout=30) as answer:
        return str(answer.read().decode())
