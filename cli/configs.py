"""`ottla configs`: settings of topics, groups and the running broker, with the option names of Kafka's tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.common import Answer, Subjects, bootstrap_option, formatted, names, near, topics_exist, with_admin
from ottla.cli.completion import complete_groups, complete_topics
from ottla.cli.output import Refused, note, print_each, print_fields, say

if TYPE_CHECKING:
    from ottla.clients import Admin, ConfigEntry

TOPICS, BROKERS, GROUPS = "topics", "brokers", "groups"
NOUNS = {TOPICS: "topic", BROKERS: "broker", GROUPS: "group"}
# Where a value comes from (KIP-226).
SOURCES = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "properties",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "group",
}
NO_EFFECT = "No effect yet."
"""The end of the documentation of a setting that the broker knows and does not act on."""
_OWN = {TOPICS: {1}, BROKERS: {2, 3, 4}, GROUPS: {8}}


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The topics or groups whose names begin so."""
    kind = context.params.get("entity_type") or TOPICS
    if kind == BROKERS:
        return []
    return (complete_groups if kind == GROUPS else complete_topics)(context, parameter, incomplete)


ENTITIES = Subjects(
    "topic",
    "--entity-name",
    metavar="NAME",
    complete=_complete,
    help="A topic, a group, or a broker's id; the same as an argument.",
)
type_option = click.option(
    "--entity-type",
    type=click.Choice(list(NOUNS)),
    default=TOPICS,
    show_default=True,
    help="Whether each NAME is a topic, a broker or a group.",
)


@click.group("configs")
def command() -> None:
    """Show and change settings of topics, of groups and of the broker."""


@command.command(short_help="Show settings.")
@type_option
@ENTITIES.many("entities", "[NAME]…", required=False)
@click.option("--all", "everything", is_flag=True, help="Also what nobody has set.")
@click.option("--key", "keys", metavar="KEY", multiple=True, help="Only this setting, wherever it comes from.")
@formatted
@bootstrap_option
def describe(entities: list[str], entity_type: str, everything: bool, keys: tuple[str, ...], bootstrap: str) -> Answer:
    """Show what is set for the topics, brokers or groups NAME; with --all what is in force."""
    if entity_type != BROKERS:
        names(entities, (), "entity-name", NOUNS[entity_type])

    async def ask(admin: Admin) -> list[dict[str, Any]]:
        if entity_type == TOPICS:
            topics_exist(entities, await admin.list_topics())
        wanted = entities or await _one_broker(admin)
        ids = _ids(wanted, entity_type)
        found: Any = await admin.describe_configs(**{entity_type: ids}, keys=keys or None)
        rows: list[dict[str, Any]] = []
        for name, key in zip(wanted, ids, strict=True):
            entries = [entry for _, entry in sorted(found[key].items())]
            shown = [_row(one) for one in entries if everything or keys or one.source in _OWN[entity_type]]
            rows.append({"entity_type": entity_type, "entity_name": name, "configs": shown})
        return rows

    described = with_admin(bootstrap, ask)
    return Answer(described, partial(print_each, described, _print))


@command.command(short_help="Change settings.")
@type_option
@ENTITIES.many("entities", "[NAME]…", required=False)
@click.option(
    "--add-config",
    "added",
    metavar="KEY=VALUE[,…]",
    multiple=True,
    help="Set; brackets hold a value with commas: cleanup.policy=[compact,delete].",
)
@click.option("--delete-config", "deleted", metavar="KEY[,…]", multiple=True, help="Go back to the default.")
@click.option("--validate-only", is_flag=True, help="Say whether the broker would accept it, and change nothing.")
@bootstrap_option
def alter(
    entities: list[str],
    entity_type: str,
    added: tuple[str, ...],
    deleted: tuple[str, ...],
    validate_only: bool,
    bootstrap: str,
) -> None:
    """Change settings of the topics, brokers or groups NAME; those that are not named stay as they are."""
    names(entities, (), "entity-name", "broker's id" if entity_type == BROKERS else NOUNS[entity_type])
    changes: dict[str, str | None] = {}
    for text in added:
        changes |= parse_pairs(text)
    for text in deleted:
        for key in filter(None, (part.strip() for part in text.split(","))):
            if key in changes:
                raise click.UsageError(f"{key} is both set and deleted: choose one.")
            changes[key] = None
    if not changes:
        raise click.UsageError("Say what to change: --add-config KEY=VALUE, or --delete-config KEY.")

    async def ask(admin: Admin) -> dict[str, ConfigEntry]:
        if entity_type == TOPICS:
            topics_exist(entities, await admin.list_topics())
        resources: Any = dict.fromkeys(_ids(entities, entity_type), changes)
        known: dict[str, ConfigEntry] = {}
        for entries in (await admin.describe_configs(**{entity_type: list(resources)})).values():
            known |= entries
        _check_known(changes, known, entity_type)
        await admin.incremental_alter_configs(**{entity_type: resources}, validate_only=validate_only)
        return known

    known = with_admin(bootstrap, ask)
    words = [f"{key} back to its default" if value is None else f"{key}={value}" for key, value in changes.items()]
    for name in entities:
        say(f"{'Could change' if validate_only else 'Changed'} {NOUNS[entity_type]} {name!r}: {', '.join(words)}.")

    for key, value in changes.items():
        if value is not None and key in known and _has_no_effect(known[key].documentation):
            note(f"{key} is kept and shown, but has no effect on this broker.")


def _has_no_effect(documentation: str | None) -> bool:
    """Whether the broker knows a setting, and does not act on it."""
    return (documentation or "").endswith(NO_EFFECT)


def _check_known(changes: Iterable[str], known: Mapping[str, ConfigEntry], entity_type: str) -> None:
    """A broker says nothing of an unknown key that goes back to its default, which is a typing error as a rule.

    Raises:
        Refused: a key is not one of those that the broker has.
    """
    for key in changes:
        # Kafka's brokers take some that they do not list while they are not set.
        unlisted = entity_type == BROKERS and (key.startswith("listener.name.") or "throttled" in key)
        if key in known or unlisted:
            continue
        effective = [name for name, entry in known.items() if not _has_no_effect(entry.documentation)]
        meant = near(key, effective) or near(key, known)
        raise Refused(
            f"A {NOUNS[entity_type]} has no setting {key!r}" + (f"; did you mean {meant!r}?" if meant else "."),
            f"`ottla configs describe --entity-type {entity_type} NAME --all` shows those that there are.",
        )


async def _one_broker(admin: Admin) -> list[str]:
    """The id of the broker, if there is only one."""
    ids = [str(broker.node_id) for broker in (await admin.describe_cluster()).brokers]
    if len(ids) != 1:
        raise click.UsageError(f"Name a broker, of {', '.join(ids)}: as an argument, or with --entity-name.")
    return ids


def parse_pairs(text: str) -> dict[str, str | None]:
    """``a=1,b=[x,y]``, as Kafka's tool reads it.

    Raises:
        click.UsageError: a part is no KEY=VALUE.
    """
    pairs: dict[str, str | None] = {}
    for part in _split(text):
        key, equals, value = part.partition("=")
        if not equals and pairs:
            last, before = list(pairs.items())[-1]
            raise click.UsageError(
                f"--add-config {part!r}: write KEY=VALUE; a value with commas stands in brackets: "
                f"{last}=[{before},{part.strip()}]."
            )
        if not key.strip() or not equals:
            raise click.UsageError(f"--add-config {part!r}: write KEY=VALUE.")
        value = value.strip()
        pairs[key.strip()] = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    return pairs


def _split(text: str) -> list[str]:
    """At commas that do not stand in brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip()]


def _ids(wanted: list[str], entity_type: str) -> list[Any]:
    """Names of topics and groups as they are, brokers by number."""
    if entity_type != BROKERS:
        return list(wanted)
    for name in wanted:
        if not name.isdecimal():
            raise Refused(f"{name!r} is no broker's id.", "`ottla doctor -b HOST:PORT` names the node that answers.")
    return [int(name) for name in wanted]


def _row(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": SOURCES.get(entry.source, str(entry.source)),
        "read_only": entry.read_only,
        "sensitive": entry.is_sensitive,
        "documentation": entry.documentation,
    }


def _print(described: dict[str, Any]) -> None:
    say(f"{NOUNS[described['entity_type']].capitalize()} {described['entity_name']}", bold=True)
    if not described["configs"]:
        note("  Nothing is set; --all shows what is in force.")
        return
    print_fields(
        ("key", "value", "from", ""),
        described["configs"],
        "name",
        lambda row: "(hidden)" if row["sensitive"] else row["value"],
        "source",
        lambda row: ", ".join(["read-only"] * row["read_only"] + ["no effect"] * _has_no_effect(row["documentation"])),
    )
