"""Messages, handlers, the advertised table and its page belong together."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy

import pytest

from ottla.broker.handlers import HANDLERS, handler
from ottla.broker.handlers.api_versions import table
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.schema import Message
from tests.house.sources import ROOT

ADVERTISED = {
    0: (0, 13),  # served from 3: librdkafka before 2.4 takes a higher minimum for a broker without compression
    1: (4, 18),
    2: (1, 11),
    3: (0, 13),
    8: (2, 10),
    9: (1, 10),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
    17: (0, 1),
    18: (0, 4),
    19: (2, 7),
    20: (1, 6),
    21: (0, 2),
    22: (0, 5),
    23: (2, 4),
    24: (0, 5),
    25: (0, 4),
    26: (0, 5),
    27: (1, 2),
    28: (0, 5),
    29: (1, 3),
    30: (1, 3),
    31: (1, 3),
    32: (1, 4),
    34: (1, 2),
    35: (1, 5),
    36: (0, 2),
    33: (0, 2),
    37: (0, 3),
    42: (0, 2),
    43: (0, 2),
    45: (0, 1),
    46: (0, 0),
    44: (0, 1),
    47: (0, 0),
    48: (0, 1),
    49: (0, 1),
    50: (0, 0),
    51: (0, 0),
    57: (0, 2),
    60: (0, 2),
    61: (0, 0),
    65: (0, 0),
    66: (0, 2),
    68: (0, 1),
    69: (0, 1),
    74: (0, 1),
    75: (0, 0),
}
"""What every client that was tried can work with; more is a decision, and less cuts somebody off."""

HANDLER_FOLDER = ROOT / "broker" / "handlers"
MESSAGE_FOLDER = ROOT / "protocol" / "messages"


def test_the_advertised_table() -> None:
    assert {row.api_key: (row.min_version, row.max_version) for row in table()} == ADVERTISED
    assert len(table()) == len(ADVERTISED)


def test_every_api_has_a_module_of_messages() -> None:
    modules = {path.stem for path in MESSAGE_FOLDER.glob("*.py")} - {"__init__"}
    assert modules == {key.module for key in ApiKey}


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.name)
def test_a_module_of_messages_has_one_request_and_one_response(key: ApiKey) -> None:
    module = importlib.import_module(f"ottla.protocol.messages.{key.module}")
    messages = {
        cls
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, Message) and cls is not Message and cls.__module__ == module.__name__
    }
    row = api(key)
    assert messages == {row.request, row.response}
    assert row.request.versions == row.response.versions
    assert row.request.flexible_from == row.response.flexible_from


def test_every_handler_has_its_messages_and_every_message_its_handler() -> None:
    """Files without a ``handle`` are what handlers share."""
    handlers = set()
    for path in HANDLER_FOLDER.glob("*.py"):
        if path.stem != "__init__" and hasattr(importlib.import_module(f"ottla.broker.handlers.{path.stem}"), "handle"):
            handlers.add(path.stem)
    assert handlers == {key.module for key in HANDLERS}
    assert set(HANDLERS) == set(ApiKey)


@pytest.mark.parametrize("key", HANDLERS, ids=lambda key: key.name)
def test_advertised_versions_are_declared(key: ApiKey) -> None:
    """The table says them, so that no messages are imported to tell them; a message that gets one is told there."""
    served, declared = HANDLERS[key], api(key).request.versions
    if key is ApiKey.PRODUCE:
        assert served == range(declared.stop)
        assert declared[0] == 3
    else:
        assert served == declared
    assert handler(key).versions == served


@pytest.mark.parametrize("key", HANDLERS, ids=lambda key: key.name)
def test_a_failing_handler_can_say_so(key: ApiKey) -> None:
    """Where a response has no error code at its top, ``failed`` builds the answer to a bug of ours."""
    module = importlib.import_module(f"ottla.broker.handlers.{key.module}")
    fields = [field for field in api(key).response.__wire__ if field.name == "error_code"]
    for version in api(key).response.versions:
        has_code = any(field.present(version) for field in fields)
        assert has_code or callable(getattr(module, "failed", None)), f"version {version} would look like success"


ASKS = re.compile(r"services\.(permits|denied)\w*\(|\b(answers|cluster_operations)\(")
FREE = {
    ApiKey.API_VERSIONS: "it is asked before anybody has said who he is",
    ApiKey.SASL_HANDSHAKE: "on a connection that is established it is always the same answer",
    ApiKey.SASL_AUTHENTICATE: "on a connection that is established it is always the same answer",
}
"""Handlers that ask nobody, and why."""


@pytest.mark.parametrize("key", HANDLERS, ids=lambda key: key.name)
def test_a_handler_asks_whether_somebody_may(key: ApiKey) -> None:
    """Nobody may forget to ask; tests/handlers/test_permissions.py says what."""
    asks = bool(ASKS.search((HANDLER_FOLDER / f"{key.module}.py").read_text()))
    assert asks is not (key in FREE), FREE.get(key, "add what Kafka asks")


@pytest.mark.parametrize("page", ["permissions", "protocol-support", "settings"])
def test_a_printed_page_is_fresh(page: str) -> None:
    printer = runpy.run_path(str(ROOT / "docs" / f"make_{page.replace('-', '_')}.py"))
    assert (ROOT / "docs" / f"{page}.md").read_text() == printer["render"](), "run: make docs"
