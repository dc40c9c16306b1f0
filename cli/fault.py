"""`ottla fault`: let requests fail on purpose, at a broker that has a workbench; or play a whole failure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import click

from ottla.cli.common import Answer, formatted, pair
from ottla.cli.fault_play import play, show
from ottla.cli.output import count_of, print_fields, say
from ottla.cli.workbench_ask import Ask, asks_workbench


@click.group("fault")
def command() -> None:
    """Let requests fail on purpose: they, or their answers, are lost, late, refused or held. Play whole failures."""


_numbers = click.argument("numbers", metavar="[NUMBER]…", nargs=-1, type=click.IntRange(1))


@command.command(short_help="Set a fault: ottla fault add SyncGroup drop=response")
@click.argument("words", metavar="[API]… [KEY=VALUE]…", nargs=-1)
@click.option(
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Set the faults of a YAML file: a mapping, or a list of them.",
)
@formatted
@asks_workbench
async def add(ask: Ask, words: tuple[str, ...], file: Path | None) -> Answer:
    """Let something go wrong with requests of an API, or of several; '*' is every one.

    \b
      ottla fault add SyncGroup group=billing drop=response times=1

    Which requests: group, member, instance, topic, transactional_id, client_id, phase, leader, generation, nth, times,
    chance. What becomes of them, one of: error, delay, drop, close, hold, corrupt, throttle, elsewhere, restart.
    `ottla help faults` says what each means.

    The fault is in force until it is removed or the broker stops. Its number is printed.
    """
    rules = _rules(words, file)
    added = [await ask("faults.add", **rule) for rule in rules]
    return Answer(added, partial(_print_added, added))


@command.command("list", short_help="Show the faults in force.")
@formatted
@asks_workbench
async def list_(ask: Ask) -> Answer:
    """Show the faults in force: how often each fired, and why it let the last request pass."""
    faults = (await ask("faults.list"))["faults"]
    headings = ("number", "hits", "seen", "held", "fault", "let the last pass, as")
    fields = ("number", "hits", "seen", "held", "name", lambda fault: fault["missed"] or None)
    return Answer(faults, partial(print_fields, headings, faults, *fields, nothing="No fault is in force."))


@command.command()
@_numbers
@click.option("--all", "all_", is_flag=True, help="All of them.")
@formatted
@asks_workbench
async def remove(ask: Ask, numbers: tuple[int, ...], all_: bool) -> Answer:
    """Take faults out of force, and let go of what they hold."""
    removed = sum([(await ask("faults.remove", number=one))["removed"] for one in _chosen(numbers, all_)])
    return Answer({"removed": removed}, partial(say, f"Removed {count_of(removed, 'fault', ',')}."))


@command.command()
@_numbers
@click.option("--all", "all_", is_flag=True, help="What all of them hold.")
@formatted
@asks_workbench
async def release(ask: Ask, numbers: tuple[int, ...], all_: bool) -> Answer:
    """Let go of the requests, and of the answers, that faults hold. They go on to hold what comes."""
    released = sum([(await ask("faults.release", number=one))["released"] for one in _chosen(numbers, all_)])
    return Answer({"released": released}, partial(say, f"Let go of {count_of(released, 'request', ',')}."))


def _chosen(numbers: Sequence[int], all_: bool) -> Sequence[int | None]:
    """The faults by their numbers; None stands for all. Raises `click.UsageError`."""
    if all_ == bool(numbers):
        raise click.UsageError("Say the numbers that `ottla fault list` shows, or --all.")
    return [None] if all_ else list(dict.fromkeys(numbers))


def _print_added(added: Iterable[dict[str, Any]]) -> None:
    for fault in added:
        say(f"Fault {fault['number']} is in force: {fault['name']}")


def _rules(words: Sequence[str], file: Path | None) -> list[dict[str, Any]]:
    """The faults that were typed or written, each checked before any is set. Raises `click.UsageError`."""
    from msgspec import to_builtins

    from ottla.workbench.rule import BadRule, Rule

    if bool(words) == (file is not None):
        raise click.UsageError("Write a fault, such as: ottla fault add SyncGroup drop=response; or name a --file.")
    given = [_typed(words)] if file is None else _written(file)
    try:
        return [to_builtins(Rule.read(one)) for one in given]
    except BadRule as error:
        raise click.UsageError(f"{file}: {error}" if file else str(error)) from None


def _typed(words: Sequence[str]) -> dict[str, Any]:
    """A fault of the words of a command line: APIs, and keys with their values."""
    import yaml  # takes long to import

    from ottla.workbench.rule import Rule

    kinds = get_type_hints(Rule)
    apis = [api for word in words if "=" not in word for api in word.split(",")]
    rule: dict[str, Any] = {"api": apis if len(apis) > 1 else apis[0] if apis else None}
    for word in words:
        if "=" in word:
            key, text = pair("The fault", word)
            try:
                # A group may be called 7, or yes: a text is what was typed.
                rule[key] = text if kinds.get(key) in (str, str | None) else yaml.safe_load(text)
            except yaml.YAMLError:
                rule[key] = text
    return rule


def _written(file: Path) -> list[Any]:
    """The faults of a file, as they are in it. Raises `click.UsageError`."""
    import yaml  # takes long to import

    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{file} is no YAML: {error}") from None
    return found if isinstance(found, list) else [found]


command.add_command(play)
command.add_command(show)
