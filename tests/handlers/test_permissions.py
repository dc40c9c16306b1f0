"""What each API asks, and what is answered to those who may not: every API of the table, at every version.

Alice is allowed exactly what a row says, and then denied one thing after the other. What is denied as if it were not
there is compared with what is not there.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from ottla.broker.core.security.acls import Acl, Pattern, Permission
from ottla.broker.core.security.session import Session
from ottla.broker.handlers import HANDLERS
from ottla.broker.settings import FIELDS
from ottla.protocol.apis import ApiKey
from tests.handlers.permission_rows import (
    DENIED_CLUSTER,
    DENIED_GROUP,
    DENIED_ID,
    DENIED_TOPIC,
    ROWS,
    TOPIC,
    A,
    R,
    Row,
    served,
)
from tests.support.requests import commit_fields, init_producer_fields
from tests.support.rules import WITH_RULES
from tests.wire.requests import error_codes

ALICE = Session("User:alice", "SASL", "PLAIN")
DENIED = {DENIED_TOPIC, DENIED_GROUP, DENIED_CLUSTER, DENIED_ID}
FREE = {
    ApiKey.API_VERSIONS: "it is asked before anybody says who he is",
    ApiKey.SASL_HANDSHAKE: "on a connection that is established it is always the same answer",
    ApiKey.SASL_AUTHENTICATE: "on a connection that is established it is always the same answer",
    ApiKey.DESCRIBE_CLUSTER: "brokers are told to everybody; what it asks is about the operations alone",
}
CASES = [(row, version) for row in ROWS for version in row.versions]


def name(value: object) -> str:
    if isinstance(value, Row):
        return f"{value.key.name} {value.called}".strip()
    return str(value)


class Explained:
    """A history of groups with one event, which names a topic."""

    @staticmethod
    def events(group_id: str, **which: Any) -> bytes:
        return json.dumps({"group_id": group_id, "events": [{"topic": TOPIC}, {"seq": 2}]}).encode()


class Controlled:
    @staticmethod
    async def ask(verb: str, body: bytes) -> bytes:
        return b"{}"


@pytest_asyncio.fixture
async def world(new_world: Any, make_batch: Any) -> Any:
    """A broker with a topic, a group that has committed and a transactional id; alice asks from here on."""
    settings = {FIELDS[key].name: value for key, value in WITH_RULES.items()}
    settings |= {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}
    world = await new_world(**settings, auto_create_topics_enable=True).start()
    world.batch = make_batch
    world.services.explain, world.services.control = Explained(), Controlled()
    world.services.log_dir = lambda: SimpleNamespace(path="/", total_bytes=0, usable_bytes=0)
    await world.topic(TOPIC, partitions=3)
    await world.call(ApiKey.OFFSET_COMMIT, 8, **commit_fields("team", [(TOPIC, 0, 1)]))
    await world.call(ApiKey.INIT_PRODUCER_ID, 4, **init_producer_fields("txn"))
    world.session = ALICE
    world.log.lines.clear()
    return world


def rules(asks: Sequence[tuple[Any, ...]], denied: Sequence[tuple[Any, ...]] = ()) -> list[Acl]:
    return [
        Acl(resource, named, Pattern.LITERAL, ALICE.principal, "*", operation, permission)
        for permission, some in ((Permission.ALLOW, asks), (Permission.DENY, denied))
        for operation, resource, named, *_ in some
    ]


async def answer(world: Any, row: Row, version: int, topic: str = TOPIC) -> Any:
    """What a request is answered with by now; None if it waits for others."""
    exchange = world.begin(row.key, version, **row.fields(world, topic))
    if hasattr(exchange, "work"):
        response = await exchange.work
        if response is not None:
            exchange.ctx.reply(response)
    await world.idle()
    return exchange.response


def codes(response: Any) -> set[int]:
    return set() if response is None else set(error_codes(response)) & DENIED


def denials(world: Any) -> list[tuple[str, str, str]]:
    """What the audit tells was denied, each with the rule on which that rests."""
    lines = [line for event, line in world.log.lines if event == "denied"]
    assert all(line["rule"] for line in lines)
    return [(line["operation"], line["resource"], line["name"]) for line in lines]


def test_every_api_is_in_the_table_at_every_version() -> None:
    tried = {(row.key, version) for row, version in CASES}
    all_versions = {(key, v) for key in HANDLERS if key not in FREE for v in HANDLERS[key] if v in served(key)}
    assert tried == all_versions


@pytest.mark.parametrize(("row", "version"), CASES, ids=name)
async def test_who_may_do_all_that_is_asked(world: Any, row: Row, version: int) -> None:
    world.authorizer.change(rules(row.asks))
    assert codes(await answer(world, row, version)) == set()
    assert denials(world) == []


@pytest.mark.parametrize(("row", "version"), [case for case in CASES if case[0].instead], ids=name)
async def test_who_may_do_what_stands_for_it(world: Any, row: Row, version: int) -> None:
    world.authorizer.change(rules(row.instead))
    assert codes(await answer(world, row, version)) == set()
    assert denials(world) == []


@pytest.mark.parametrize(("row", "version"), CASES, ids=name)
async def test_who_may_not_do_one_of_them(world: Any, row: Row, version: int) -> None:
    for ask in row.asks:
        world.log.lines.clear()
        world.wall += 11_000  # what is denied again is told again
        world.authorizer.change(rules(row.asks, [ask]))
        before = copy.copy(world.topics.catalog)
        response = await answer(world, row, version)
        operation, resource, named, code = ask
        assert codes(response) == ({code} if code else set()), ask
        if code and ask[0] is not A.DESCRIBE_CONFIGS:
            assert denials(world) == [(operation.name, resource.name, named)]
            assert world.services.audit.denied[operation.name, resource.name] > 0
        if not code:
            assert named not in str(response), "hidden"
        if row.key is not ApiKey.CREATE_TOPICS or operation is A.CREATE:
            assert world.topics.catalog.state() == before.state(), "something was changed"


@pytest.mark.parametrize(("row", "version"), [case for case in CASES if case[0].is_named], ids=name)
async def test_nobody_learns_what_there_is(world: Any, row: Row, version: int) -> None:
    """Whoever may not see a topic is answered the same whether it exists or not (Q-1)."""
    others = [ask for ask in row.asks if ask[1] is not R.TOPIC]
    world.authorizer.change(rules(others))
    there, nowhere = [await answer(world, row, version, topic) for topic in (TOPIC, "nowhr1")]
    assert codes(there) == {DENIED_TOPIC}
    assert str(there).replace(TOPIC, "nowhr1") == str(nowhere)


@pytest.mark.parametrize("row", ROWS, ids=name)
async def test_without_an_authorizer_nothing_is_asked(world: Any, row: Row) -> None:
    world.services.authorizer = None
    assert codes(await answer(world, row, row.versions[-1])) == set()
