"""docs/client.md has every public name, method and option of the included client, as the docstrings tell them."""

from __future__ import annotations

import re
import runpy
from dataclasses import dataclass, fields

import pytest

from ottla import clients
from ottla.clients.options import AdminOptions, ClientOptions, ConsumerOptions, ProducerOptions, opt
from tests.house.sources import ROOT

PRINTER = runpy.run_path(str(ROOT / "docs" / "make_client.py"))
TEXT = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
REFERENCE = TEXT.partition(PRINTER["BEGIN"])[2]


def test_the_page_is_as_it_is_printed() -> None:
    assert PRINTER["render"]() == TEXT, "make docs"


@pytest.mark.parametrize("client", [clients.Admin, clients.Consumer, clients.Producer])
def test_every_method_is_told(client: type) -> None:
    section = REFERENCE.partition(f"\n## {client.__name__}\n")[2].partition("\n## ")[0]
    told = set(re.findall(r"^#### `(?:async with |await )?(\w+)", section, re.MULTILINE))
    assert told == {name for name in dir(client) if not name.startswith("_")}
    assert re.search(r"^#### .*\n+(?=#|\Z)", section, re.MULTILINE) is None, "a method without a word"


@pytest.mark.parametrize("options", [AdminOptions, ClientOptions, ConsumerOptions, ProducerOptions])
def test_every_option_is_told_once(options: type[ClientOptions]) -> None:
    for one in fields(options):
        expected = 2 if one.name == "default_api_timeout_ms" else 1
        assert len(re.findall(rf"^\|[^|]*`{one.name}`[^|]*\| `", REFERENCE, re.MULTILINE)) == expected, one.name


def test_every_name_is_told() -> None:
    missing = [name for name in clients.__all__ if not re.search(rf"\b{name}\b", REFERENCE)]
    assert missing == []


def test_an_option_without_an_entry_is_found() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Silent(ClientOptions):
        """Options.

        named: this one.
        """

        named: int = opt(1, ("an integer", lambda value: True))
        unnamed: int = opt(1, ("an integer", lambda value: True))

    with pytest.raises(SystemExit, match="its docstring lacks unnamed"):
        PRINTER["table_of"](Silent)
