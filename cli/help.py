"""`ottla help`: the pages of the documentation in the terminal, and the commands' own help."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import NamedTuple

import click

from ottla.cli.common import near
from ottla.cli.main import COMMANDS
from ottla.cli.output import page, print_table, say

SECTIONED = "command-line"
"""The page whose sections are topics of their own."""
_COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
_KIP = re.compile(r"kip-?(\d+)")


class Topic(NamedTuple):
    """A page, or a section of one."""

    title: str
    text: str


def topics() -> dict[str, Topic]:
    """All pages and sections, by the names to ask for."""
    found: dict[str, Topic] = {}
    for file in sorted(files("ottla.cli").joinpath("docs").iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".md"):
            continue
        text = _COMMENT.sub("", file.read_text(encoding="utf-8"))
        name = file.name.removesuffix(".md")
        found[name] = Topic(text.partition("\n")[0].lstrip("# "), text)
        if name == SECTIONED:
            for section in text.split("\n## ")[1:]:
                title = section.partition("\n")[0]
                found[_named(title)] = Topic(title, f"# {section}")
    return found


def _named(title: str) -> str:
    return "-".join(title.lower().split())


def _fitting(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in (*topics(), *COMMANDS, *_causes()) if name.startswith(incomplete)]


@click.command("help")
@click.argument("words", metavar="[TOPIC|SETTING|CAUSE|COMMAND]", nargs=-1, shell_complete=_fitting)
@click.pass_context
def command(context: click.Context, words: tuple[str, ...]) -> None:
    """Print a page of the documentation, what a setting does, what a cause of a rebalance means, or a command's help.

    Without TOPIC it says what there is to read.
    """
    known = topics()
    if not words:
        print_table(("topic", ""), [(name, one.title) for name, one in known.items()])
        say("", "`ottla help TOPIC` prints one of these, `ottla COMMAND --help` the options of a command.")
        return
    name = _named(" ".join(words)).removesuffix(".md")
    if name in known:
        page(known[name].text)
    elif (about := _setting(name) or _causes().get(name)) is not None:
        page(about)
    else:
        owners = [one for one in COMMANDS if len(words) == 1 and _help_of(context, (one, *words)) is not None]
        found = _help_of(context, words) or (_help_of(context, (*owners, *words)) if len(owners) == 1 else None)
        if found is not None:
            say(*found.split("\n"))
            return
        if len(sections := _sections(name)) == 1:
            page(*sections)
            return
        meant = near(name, [*known, *COMMANDS, *_causes()])
        advice = f"did you mean {meant!r}?" if meant else "`ottla help` says what there is."
        if (kip := _KIP.fullmatch(name)) is not None:
            pages = [page for page, one in known.items() if f"KIP-{kip[1]}" in one.text]
            advice = f"it is told of in: {', '.join(f'ottla help {page}' for page in pages)}" if pages else advice
        if owners:
            advice = f"name one of: {', '.join(f'ottla help {owner} {name}' for owner in owners)}"
        raise click.UsageError(f"There is no topic and no command {' '.join(words)!r}; {advice}")


def _setting(key: str) -> str | None:
    """The row of a setting in docs/settings.md."""
    rows = (line.split(" | ") for line in topics()["settings"].text.splitlines())
    for row in rows:
        if len(row) == 3 and row[0].removesuffix(" †") == f"| `{key}`":
            return f"# {key}\n\n{row[2].removesuffix(' |')}\n\nThe default is {row[1] or 'empty'}.\n"
    return None


def _causes() -> dict[str, str]:
    """The sections of docs/why.md about the causes of rebalances, by their names."""
    sections = (section.partition("\n#")[0] for section in topics()["why"].text.split("\n### ")[1:])
    return {section.partition("\n")[0]: f"# {section.rstrip()}\n" for section in sections}


def _sections(name: str) -> list[str]:
    """The sections of pages that have a name."""
    sections = (section for one in topics().values() for section in one.text.split("\n## ")[1:])
    return [f"# {section.rstrip()}\n" for section in sections if _named(section.partition("\n")[0]) == name]


def _help_of(context: click.Context, words: tuple[str, ...]) -> str | None:
    """The help of a command, or of a command of a command."""
    assert context.parent is not None
    inner = context.parent
    found: click.Command | None = inner.command
    for word in words:
        if not isinstance(found, click.Group) or (found := found.get_command(inner, word)) is None:
            return None
        inner = click.Context(found, info_name=word, parent=inner)
    return None if found is None else found.get_help(inner)
