"""docs/pipeline.md has the keys and the tables that the code has, and what it shows can be typed."""

import re
import runpy
import shlex
import tomllib
from pathlib import Path

import click

from ottla.cli.main import command
from ottla.pipeline.config import SETTINGS, key, load

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "pipeline.md"


def test_the_page_is_fresh() -> None:
    printed = runpy.run_path(str(ROOT / "docs" / "make_pipeline_tables.py"))
    assert PAGE.read_text(encoding="utf-8") == printed["render"](), "run: make docs"


def test_the_configuration_that_it_shows_can_be(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "pipeline.toml"
    file.write_text(example)
    assert load(file).slo_groups
    assert set(tomllib.loads(example)) <= {key(name) for name in SETTINGS}


def test_the_commands_that_it_shows_are_there() -> None:
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    shown = [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ottla ")]
    assert len(shown) > 5
    for line in shown:
        words = shlex.split(line, comments=True)[1:]
        found: click.Command | None = command
        context = click.Context(command)
        while isinstance(found, click.Group):
            name = words.pop(0)
            found = found.get_command(context, name)
            assert found is not None, line
        assert found is not None
        flags = {flag for parameter in found.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        assert {word.partition("=")[0] for word in words if word.startswith("-")} <= flags, line


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)", PAGE.read_text()):
        assert (PAGE.parent / target).is_file(), target
