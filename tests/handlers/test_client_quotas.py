"""DescribeClientQuotas, AlterClientQuotas and ListConfigResources; and that quotas outlive a restart."""

import asyncio

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode

RATE = "producer_byte_rate"


async def alter(world, *changes, version=1, validate_only=False):
    """Changes are (parts, values), None to remove one; the error codes by entity."""
    rows = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in parts.items()],
            "ops": [{"key": key, "value": value or 0, "remove": value is None} for key, value in values.items()],
        }
        for parts, values in changes
    ]
    answer = await world.call(ApiKey.ALTER_CLIENT_QUOTAS, version, entries=rows, validate_only=validate_only)
    entries = answer.entries
    assert all(bool(row.error_code) == (row.error_message is not None) for row in entries)
    return {tuple((part.entity_type, part.entity_name) for part in row.entity): row.error_code for row in entries}


async def describe(world, *components, strict=False, version=1):
    rows = [dict(zip(("entity_type", "match_type", "match"), component, strict=True)) for component in components]
    return await world.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, components=rows, strict=strict)


async def every(world):
    """All quotas, by entity."""
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in (await describe(world)).entries
    }


@pytest.mark.parametrize("version", range(2))
async def test_quotas_are_set_described_and_removed(world, version):
    told = []
    world.topics.on_quotas = told.append
    assert await alter(world, ({"user": None, "client-id": "c"}, {RATE: 5.0}), version=version) == {
        (("client-id", "c"), ("user", None)): 0
    }
    response = await describe(world, ("client-id", 2, None), version=version)
    assert (response.error_code, response.throttle_time_ms) == (0, 0)
    assert len(response.entries) == 1
    assert await every(world) == {(("client-id", "c"), ("user", None)): {RATE: 5.0}}
    assert (await describe(world, ("client-id", 2, None), strict=True, version=version)).entries == []
    await alter(world, ({"client-id": "c", "user": None}, {RATE: None}), version=version)
    assert await every(world) == {}
    assert told == [{(("client-id", "c"), ("user", None)): {RATE: 5.0}}, {}]


async def test_what_is_only_checked_changes_nothing(world):
    told = []
    world.topics.on_quotas = told.append
    codes = await alter(world, ({"user": "u"}, {RATE: 5.0}), ({"user": "v"}, {RATE: 0.0}), validate_only=True)
    assert codes == {(("user", "u"),): 0, (("user", "v"),): ErrorCode.INVALID_REQUEST}
    assert await every(world) == {}
    assert told == []


async def test_nobody_is_told_of_what_stays(world):
    await alter(world, ({"user": "u"}, {RATE: 5.0}))
    told = []
    world.topics.on_quotas = told.append
    assert await alter(world, ({"user": "u"}, {RATE: 5.0})) == {(("user", "u"),): 0}
    assert told == []


async def test_an_address_may_be_the_name_of_a_host(world, monkeypatch):
    async def getaddrinfo(host, port, **options):
        if host != "near":
            raise OSError("no such host")
        return []

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    codes = await alter(
        world,
        ({"ip": "near"}, {"connection_creation_rate": 5.0}),
        ({"ip": "::1"}, {"connection_creation_rate": 5.0}),
        ({"ip": "nowhere"}, {"connection_creation_rate": 5.0}),
    )
    assert list(codes.values()) == [0, 0, ErrorCode.INVALID_REQUEST]


async def test_a_filter_that_makes_no_sense(world):
    response = await describe(world, ("user", 0, None))
    assert (response.error_code, response.entries) == (ErrorCode.INVALID_REQUEST, None)
    assert response.error_message
    assert (await describe(world, ("nobody", 0, "x"))).error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_storage_that_fails(world):
    world.engine.catalog.store = world.refuse_to_store
    assert await alter(world, ({"user": "u"}, {RATE: 5.0})) == {(("user", "u"),): ErrorCode.KAFKA_STORAGE_ERROR}
    assert await every(world) == {}


async def test_quotas_outlive_a_restart(on_disk):
    world = await on_disk()
    await alter(world, ({"user": None}, {RATE: 5.0, "request_percentage": 0.25}), ({"ip": None}, {}))
    await world.engine.close()
    world = await on_disk()
    assert await every(world) == {(("user", None),): {RATE: 5.0, "request_percentage": 0.25}}
    assert world.topics.catalog.quotas == {(("user", None),): {RATE: 5.0, "request_percentage": 0.25}}


# ----------------------------------------------------------------------------------------------- what has settings


async def resources(world, *kinds, version=1):
    response = await world.call(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=list(kinds))
    return response.error_code, [(row.resource_type, row.resource_name) for row in response.config_resources]


async def test_resources_are_listed(world, topic):
    topics = [(2, "__consumer_offsets"), (2, "t")]
    assert await resources(world) == (0, [(8, "1"), (4, "1"), *topics])
    assert await resources(world, 2) == (0, topics)
    assert await resources(world, 4, 4) == (0, [(4, "1")])
    assert await resources(world, 16) == (0, [])
    assert await resources(world, 32) == (0, [])
    assert await resources(world, 2, 5) == (ErrorCode.UNSUPPORTED_VERSION, [])
    assert await resources(world, version=0) == (0, [])
