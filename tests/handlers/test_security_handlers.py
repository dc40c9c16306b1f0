"""SCRAM credentials and access control rules through their messages: kept, described, and there after a restart."""

import pytest
import pytest_asyncio

from ottla.broker.settings import FIELDS
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, MalformedFrame
from tests.support.rules import WITH_RULES

ANY, LITERAL, PREFIXED = 1, 3, 4
EVERYTHING = {
    "resource_type_filter": ANY,
    "resource_name_filter": None,
    "pattern_type_filter": ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": ANY,
    "permission_type": ANY,
}


SETTINGS = {FIELDS[key].name: value for key, value in WITH_RULES.items()}


@pytest_asyncio.fixture
async def world(new_world):
    """A broker with rules, where everybody is an administrator."""
    return await new_world(**SETTINGS).start()


async def set_credentials(world, *upsertions, remove=()):
    """Upsertions are (user, mechanism, iterations), removals (user, mechanism); the codes by user."""
    secret = {"salt": b"salt", "salted_password": b"secret"}
    columns = "name", "mechanism", "iterations"
    answer = await world.call(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        deletions=[{"name": user, "mechanism": mechanism} for user, mechanism in remove],
        upsertions=[secret | dict(zip(columns, upsertion, strict=True)) for upsertion in upsertions],
    )
    return {row.user: row.error_code for row in answer.results}


async def credentials(world, *users):
    named = [{"name": user} for user in users] or None
    return {
        row.user: row.error_code or [(info.mechanism, info.iterations) for info in row.credential_infos]
        for row in (await world.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=named)).results
    }


async def test_credentials_are_set_and_removed(world):
    assert await set_credentials(world, ("u", 1, 4096), ("v", 2, 5000)) == {"u": 0, "v": 0}
    told = [(event, row["user"], row["mechanism"]) for event, row in world.log.lines if "user" in row]
    assert told == [("credential_set", "u", "SCRAM-SHA-256"), ("credential_set", "v", "SCRAM-SHA-512")]
    assert await credentials(world) == {"u": [(1, 4096)], "v": [(2, 5000)]}
    assert await credentials(world, "v", "x") == {"v": [(2, 5000)], "x": ErrorCode.RESOURCE_NOT_FOUND}
    codes = await set_credentials(world, ("w", 1, 1), remove=[("v", 2), ("u", 2)])
    assert codes == {"v": 0, "u": ErrorCode.RESOURCE_NOT_FOUND, "w": ErrorCode.UNACCEPTABLE_CREDENTIAL}
    assert await credentials(world) == {"u": [(1, 4096)]}


def creation(**fields):
    return {"resource_type": 2, "resource_name": "t", "resource_pattern_type": LITERAL, "principal": "User:u",
            "host": "*", "operation": 3, "permission_type": 3} | fields  # fmt: skip


async def allow(world, *creations, version=3):
    return [row.error_code for row in (await world.call(ApiKey.CREATE_ACLS, version, creations=creations)).results]


async def rules(world, version=3, **fields):
    response = await world.call(ApiKey.DESCRIBE_ACLS, version, **EVERYTHING | fields)
    assert response.error_code == 0
    return {
        (row.resource_name, row.pattern_type): [(acl.principal, acl.operation) for acl in row.acls]
        for row in response.resources
    }


async def take_back(world, **fields):
    (result,) = (await world.call(ApiKey.DELETE_ACLS, 3, filters=[EVERYTHING | fields])).filter_results
    return result.error_code or sorted(acl.resource_name for acl in result.matching_acls)


@pytest.mark.parametrize("version", range(1, 4))
async def test_rules_are_made_described_and_removed(world, version):
    other = creation(resource_name="p", resource_pattern_type=PREFIXED)
    assert await allow(world, creation(), creation(operation=4), other, creation(), version=version) == [0, 0, 0, 0]
    assert await rules(world, version) == {
        ("t", LITERAL): [("User:u", 3), ("User:u", 4)],
        ("p", PREFIXED): [("User:u", 3)],
    }
    assert await rules(world, version, operation=4) == {("t", LITERAL): [("User:u", 4)]}
    assert await take_back(world, operation=3) == ["p", "t"]
    assert await rules(world, version) == {("t", LITERAL): [("User:u", 4)]}
    assert await take_back(world, operation=99) == ErrorCode.INVALID_REQUEST


async def test_rules_that_are_none(world):
    assert await allow(world, creation(principal="u"), creation()) == [ErrorCode.INVALID_REQUEST, 0]
    assert await allow(world, creation(operation=ANY), creation()) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2


async def test_rules_without_an_authorizer(new_world):
    """As Kafka. MirrorMaker 2 asks for rules from time to time, and takes this as "none"; other errors it logs."""
    world = await new_world().start()
    for answer in (
        await world.call(ApiKey.DESCRIBE_ACLS, 3, **EVERYTHING),
        *(await world.call(ApiKey.CREATE_ACLS, 3, creations=[creation()])).results,
        *(await world.call(ApiKey.DELETE_ACLS, 3, filters=[EVERYTHING])).filter_results,
    ):
        assert answer.error_code == ErrorCode.SECURITY_DISABLED
        assert "everybody may do everything" in answer.error_message
    assert not world.topics.catalog.acls


async def test_what_a_client_cannot_mean_closes_its_connection(world):
    for asking in (
        allow(world, creation(operation=0)),
        rules(world, pattern_type_filter=0),
        take_back(world, permission_type=0),
    ):
        with pytest.raises(MalformedFrame):
            await asking


async def test_a_storage_that_fails(world):
    await allow(world, creation())
    world.engine.catalog.store = world.refuse_to_store
    assert await set_credentials(world, ("u", 1, 4096)) == {"u": ErrorCode.KAFKA_STORAGE_ERROR}
    assert await allow(world, creation(), creation(operation=4)) == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert await take_back(world) == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await credentials(world), await rules(world)) == ({}, {("t", LITERAL): [("User:u", 3)]})


async def test_they_outlive_a_restart(on_disk, tmp_path):
    world = await on_disk(**SETTINGS)
    await set_credentials(world, ("u", 1, 4096))
    await allow(world, creation())
    kept = world.topics.catalog.credentials
    await world.engine.close()
    assert b"secret" not in (tmp_path / "catalog.json").read_bytes()
    world = await on_disk(**SETTINGS)
    assert await credentials(world) == {"u": [(1, 4096)]}
    assert world.topics.catalog.credentials == kept
    assert await rules(world) == {("t", LITERAL): [("User:u", 3)]}
