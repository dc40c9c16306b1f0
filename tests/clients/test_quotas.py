"""The admin client sets quotas; the example of docs/quotas.md is run as it stands there."""

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from ottla.clients import Admin
from ottla.clients.errors import KafkaError
from ottla.testing import Broker

pytestmark = pytest.mark.e2e

PAGE = Path(__file__).parents[2] / "docs" / "quotas.md"


async def test_quotas_are_set_described_and_lifted(ottla_broker: Broker) -> None:
    async with Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        assert await admin.describe_client_quotas() == []
        await admin.alter_client_quotas({"client-id": "billing"}, {"consumer_byte_rate": 9, "producer_byte_rate": 1})
        await admin.alter_client_quotas({"client-id": "billing"}, {"producer_byte_rate": None})
        assert await admin.describe_client_quotas() == [({"client-id": "billing"}, {"consumer_byte_rate": 9})]
        with pytest.raises(KafkaError, match="alter quotas of"):
            await admin.alter_client_quotas({"client-id": "billing"}, {"no_such_rate": 1})


async def test_the_example_runs(ottla_broker: Broker) -> None:
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]  # type: ignore[index]
    code = code.replace("localhost:9092", ottla_broker.bootstrap_servers).replace("print(", "seen.extend(")
    names: dict[str, Any] = {"seen": []}
    exec("async def example():\n" + textwrap.indent(code, "    "), names)
    await names["example"]()
    assert names["seen"] == [
        ({"client-id": "billing"}, {"consumer_byte_rate": 1_048_576.0}),
        ({"ip": None}, {"connection_creation_rate": 50.0}),
    ]
