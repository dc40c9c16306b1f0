"""Commands while one of three nodes takes connections and says nothing, as after SIGSTOP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from click.testing import Result

from ottla.cli import common
from ottla.protocol.apis import ApiKey
from tests.cli.commands import Ottla
from tests.clients.three_brokers import HOST, IDS, ThreeBrokers, by_topic


@pytest_asyncio.fixture
async def brokers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ThreeBrokers]:
    """The first hangs; each has a group."""
    monkeypatch.setitem(common.IMPATIENT, "socket_connection_setup_timeout_ms", 1_000)
    async with ThreeBrokers() as made:
        made.silent.add(1)
        made.coordinators |= {"g-2": 2, "g-3": 3}
        made.answers |= {
            ApiKey.LIST_GROUPS: lambda node_id, request: {"groups": [{"group_id": f"g-{node_id}"}]},
            ApiKey.DESCRIBE_GROUPS: lambda _, request: {
                "groups": [{"group_id": name, "group_state": "Empty"} for name in request.groups]
            },
            ApiKey.OFFSET_FETCH: lambda _, request: {"groups": [{"group_id": one.group_id} for one in request.groups]},
            ApiKey.LIST_TRANSACTIONS: lambda node_id, request: {},
            ApiKey.LIST_OFFSETS: lambda node_id, request: by_topic(
                request, lambda one: {"partition_index": one.partition_index, "offset": node_id}
            ),
            ApiKey.DESCRIBE_CONFIGS: lambda _, request: {
                "results": [
                    {"resource_type": one.resource_type, "resource_name": one.resource_name}
                    for one in request.resources
                ]
            },
            ApiKey.DESCRIBE_CLUSTER: lambda _, request: {
                "brokers": [{"broker_id": one, "host": HOST, "port": made.ports[one]} for one in IDS]
            },
        }
        yield made


async def asked(brokers: ThreeBrokers, *words: str) -> Result:
    """What a command says that asks the second node; it ends with exit code 1, and names who does not answer."""
    ottla = Ottla(f"{HOST}:{brokers.ports[2]}")
    result: Result = await asyncio.to_thread(ottla.run, *words, expect=1)
    return result


def names_it(brokers: ThreeBrokers, result: Result) -> bool:
    return f"Error: {HOST}:{brokers.ports[1]} does not answer" in result.stderr


@pytest.mark.parametrize("words", ["groups list", "groups describe --all-groups"])
async def test_groups_of_the_others_are_shown(brokers: ThreeBrokers, words: str) -> None:
    result = await asked(brokers, *words.split())
    assert [name in result.stdout for name in ("g-1", "g-2", "g-3")] == [False, True, True]
    assert names_it(brokers, result)


@pytest.mark.parametrize("words", ["groups describe mine", "why mine", "transactions list"])
async def test_what_only_that_node_knows_is_not_waited_for(brokers: ThreeBrokers, words: str) -> None:
    result = await asked(brokers, *words.split())
    assert names_it(brokers, result)
    assert "There are no" not in result.output


async def test_offsets_of_the_others_are_shown(brokers: ThreeBrokers) -> None:
    result = await asked(brokers, "topics", "describe", "t")
    rows = [line.split()[-3:] for line in result.stdout.splitlines()[2:]]
    assert rows == [["-", "-", "-"], ["2", "2", "0"], ["3", "3", "0"]]
    assert names_it(brokers, result)


async def test_the_status_of_the_cluster_names_it(brokers: ThreeBrokers) -> None:
    result = await asked(brokers, "cluster", "status")
    whys = [line.split()[-1] for line in result.stdout.splitlines()[1:]]
    assert whys == ["answer", "-", "-"], result.stdout
